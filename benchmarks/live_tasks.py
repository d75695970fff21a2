"""What the live runs tune: two tasks of the paper, and XGBoost with a limit on its latency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from acetune.cli.demo_credit import Rows, auc, lightgbm, made_credit
from acetune.constraints.latency import LatencyCheck
from acetune.core.errors import MissingExtraError
from acetune.core.goals import Constraint, Estimate
from acetune.replay.training import Task
from acetune.searchers.space import Dimension, Integer, lograndint, loguniform, randint, uniform
from acetune.trial.trial import Trial
from paper.published import HARD
from paper.tasks import load_task
from paper.tasks.credit import paper_credit

CREDIT_FILE, LAW_FILE = Path("credit", "UCI_Credit_Card.csv"), Path("law", "law.csv")
CONFIRM_ROWS = 6_000  # of the 21,000 that the paper trains on
LATENCY_MS = 0.25  # one random configuration in ten ends within it, and the best ones do not
_CLIENTS, _SELECTING = 200_000, 20_000  # made by code; those to select by
_BATCH = 1_000  # rows that are predicted at once
_FIXED = {"objective": "binary:logistic", "tree_method": "hist", "seed": 1}


def credit_task(data: Path | None) -> Task:
    """The paper's fairness task, with clients held back that the search never sees."""
    lightgbm()  # say at once if it is missing
    credit = replace(made_credit(), confirms_each_round=True)
    if data is not None:
        credit = paper_credit(data / CREDIT_FILE, confirm_rows=CONFIRM_ROWS)
    # of a checkpoint its scores alone: writing out thousands of trees would take longer than
    # training does, and no peer writes any
    credit = replace(credit, keeps_trees=False)
    limit = Constraint("eod", upper=HARD, check=credit.check)
    return Task(
        "credit-lightgbm" if data is not None else "credit-lightgbm-made",
        credit.train,
        credit.space,
        "auc",
        "max",
        (limit,),
        credit.confirm,
    )


def law_task(data: Path | None) -> Task:
    """The law MLP, as it was recorded."""
    return load_task("law-mlp", None if data is None else data / LAW_FILE)


class Latency(LatencyCheck):
    """The median latency of a batch, without waiting for other trials to pause.

    Contenders have a core each; waiting for being alone on the machine would stop one of them
    while the other one measures.
    """

    measured_alone = False


@dataclass(frozen=True)
class BoostingTask:
    """XGBoost on the clients of the demo, with a limit on how long a batch takes to predict."""

    train_rows: Rows
    select_rows: Rows  # the search sees these
    confirm_rows: Rows  # the search never sees these
    _data: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def space(self) -> dict[str, Dimension]:
        """Trees, their number and how they are grown."""
        return {
            "rounds": lograndint(10, 1000),
            "max_depth": randint(2, 10),
            "eta": loguniform(0.01, 0.2),
            "min_child_weight": loguniform(0.5, 100),
            "subsample": uniform(0.4, 1.0),
            "colsample_bytree": uniform(0.2, 1.0),
            "reg_lambda": loguniform(0.01, 100),
            "gamma": loguniform(0.001, 10),
        }

    def train(self, trial: Trial) -> None:
        """One step is one boosting round."""
        xgb, round_model = xgboost()
        if not self._data:  # once a process
            rows = xgb.QuantileDMatrix(self.train_rows.x, self.train_rows.y, nthread=1)
            self._data.extend([rows, xgb.DMatrix(self.select_rows.x, nthread=1)])
        rows, select = self._data
        params = dict(trial.params)
        rounds = params.pop("rounds")
        booster = xgb.Booster({**_FIXED, **params, "nthread": trial.threads}, [rows, select])
        for step in trial.steps(rounds):
            booster.update(rows, step - 1)
            value = auc(self.select_rows.y, booster.predict(select)).value
            # trees that were grown do not change: a checkpoint is the booster and a round
            model = round_model(booster, step, None, float("nan"), trees_change=False)
            trial.report(auc=value, model=model, snapshot=_itself)

    @property
    def check(self) -> LatencyCheck:
        """Milliseconds for a batch."""
        batch = self.select_rows.x[:_BATCH]
        return Latency(
            lambda model: model.booster.inplace_predict(batch, iteration_range=(0, model.rounds)),
            percentile=50,
            warmup=3,
            repeats=20,
        )

    def confirm(self, model: Any) -> dict[str, Estimate]:
        """AUC on rows that the search never saw, and the latency once more."""
        scores = model.predict(self.confirm_rows.x)
        return {"auc": auc(self.confirm_rows.y, scores), "p50_ms": self.check(model)}


def latency_task(_: Path | None = None) -> Task:
    """XGBoost under a limit on the median latency; its clients are always made by code."""
    xgboost()  # say at once if it is missing
    credit = made_credit(_CLIENTS)
    select = credit.select_rows.take(np.arange(_SELECTING))
    boosting = BoostingTask(credit.train_rows, select, credit.confirm_rows)
    return Task(
        "xgboost-latency",
        boosting.train,
        boosting.space,
        "auc",
        "max",
        (Constraint("p50_ms", upper=LATENCY_MS, check=boosting.check),),
        boosting.confirm,
    )


def xgboost() -> tuple[Any, Any]:
    """XGBoost and the callback's model, or an error that names the install command."""
    try:
        import xgboost as found
    except ImportError:
        raise MissingExtraError("XGBoost", "xgboost") from None
    from acetune.callbacks.xgboost import RoundModel

    return found, RoundModel


def _itself(model: Any) -> Any:
    return model


class LiveTask(NamedTuple):
    """A task, and which of its parameters is the number of steps."""

    make: Callable[[Path | None], Task]
    steps: str

    def most_steps(self, task: Task) -> int:
        """That a trial can have."""
        dimension = task.space[self.steps]
        assert isinstance(dimension, Integer)
        return dimension.high


TASKS: Mapping[str, LiveTask] = {
    "credit": LiveTask(credit_task, "n_estimators"),
    "law": LiveTask(law_task, "epochs"),
    "latency": LiveTask(latency_task, "rounds"),
}
