"""Credit default with LightGBM under a fairness limit: what the demo tunes.

The data are clients made by code in the manner of the UCI credit card clients, or that file itself.
One feature is informative for one group only, so that a good model is easily unfair: the limit on
the equalised odds difference (EOD) bites. The space and the data are those of the first experiment
of the ACE paper.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.constraints.fairness import equalized_odds_difference
from acetune.core.errors import AcetuneError
from acetune.core.goals import Estimate
from acetune.core.import_on_use import import_extra
from acetune.searchers.space import Dimension, lograndint, loguniform, uniform
from acetune.trial.trial import Trial

Array = NDArray[Any]

_TARGET = "default.payment.next.month"
_CATEGORICAL = ("EDUCATION", "MARRIAGE", "PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6")
SEED = 12345
_HISTOGRAMS_MB = 2_048  # the largest trees of the space would keep 9 GB of them


@dataclass(frozen=True, slots=True)
class Rows:
    """Features, labels (1 is default) and the sensitive group (1 or 2) of some clients."""

    x: Array
    y: Array
    group: Array

    def take(self, chosen: Array) -> Rows:
        """Some of the rows."""
        return Rows(self.x[chosen], self.y[chosen], self.group[chosen])


class CreditModel:
    """A booster up to one of its rounds, with its scores on the selection rows.

    LightGBM predicts with fewer rounds at no cost, so a checkpoint needs no copy; only when it is
    pickled are its trees written out, up to this round.
    """

    def __init__(
        self, booster: Any, rounds: int, scores: Array, confirm_scores: Array | None = None
    ) -> None:
        self._booster: Any = booster
        self.rounds = rounds
        self.scores = scores
        self.confirm_scores = confirm_scores  # where the task keeps them up to date

    def predict(self, x: Array) -> Array:
        """Probability of default."""
        scores: Array = self._booster.predict(x, num_iteration=self.rounds)
        return scores

    def __getstate__(self) -> dict[str, Any]:
        text = self._booster.model_to_string(num_iteration=self.rounds)
        return {
            "rounds": self.rounds,
            "scores": self.scores,
            "confirm_scores": self.confirm_scores,
            "text": text,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.rounds, self.scores = state["rounds"], state["scores"]
        self.confirm_scores = state["confirm_scores"]
        self._booster = lightgbm().Booster(model_str=state["text"])


@dataclass(frozen=True, slots=True)
class CreditScores:
    """What a check needs of a model, without its trees."""

    rounds: int
    scores: Array
    confirm_scores: Array | None = None


@dataclass(frozen=True)
class CreditTask:
    """Training, check and confirmation of the task, on rows of their own."""

    train_rows: Rows
    select_rows: Rows  # the search sees these
    confirm_rows: Rows  # the search never sees these
    categorical: tuple[int, ...]
    max_rounds: int = 400
    max_leaves: int = 1024
    confirms_each_round: bool = False  # scores on the confirmation rows are kept up to date too
    keeps_trees: bool = True  # False: of a checkpoint its scores alone, which are quickly written
    _binned: dict[int, list[Any]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def space(self) -> dict[str, Dimension]:
        """The paper's search space, with the trees' number and size limited by the data's size."""
        most_leaves = min(self.max_leaves, len(self.train_rows.y))
        return {
            "n_estimators": lograndint(4, self.max_rounds),
            "num_leaves": lograndint(4, most_leaves),
            "min_child_samples": lograndint(2, 129),
            "learning_rate": loguniform(1 / 1024, 1.0),
            "log_max_bin": lograndint(3, 11),
            "colsample_bytree": uniform(0.01, 1.0),
            "reg_alpha": loguniform(1 / 1024, 1024),
            "reg_lambda": loguniform(1 / 1024, 1024),
        }

    def train(self, trial: Trial) -> None:
        """One step is one boosting round."""
        lgb = lightgbm()
        params = dict(trial.params)
        rounds = params.pop("n_estimators")
        max_bin = 2 ** params.pop("log_max_bin") - 1
        fixed = {"objective": "binary", "metric": "None", "seed": 1, "num_threads": trial.threads}
        fixed["histogram_pool_size"] = _HISTOGRAMS_MB
        train_set, *valid_sets = self._datasets(max_bin)
        booster = lgb.Booster({**params, **fixed, **_dataset_options(max_bin)}, train_set)
        for number, valid_set in enumerate(valid_sets):
            booster.add_valid(valid_set, str(number))
        seen: list[Array] = []

        def keep_scores(scores: Array, _: Any) -> tuple[str, float, bool]:
            seen.append(np.array(scores))
            return "seen", 0.0, True

        for step in trial.steps(rounds):
            booster.update()
            seen.clear()
            booster.eval_valid(keep_scores)  # the scores that LightGBM keeps up to date anyway
            value = auc(self.select_rows.y, seen[0]).value
            model: CreditModel | CreditScores = CreditScores(step, *seen)
            if self.keeps_trees:
                model = CreditModel(booster, step, *seen)
            trial.report(auc=value, model=model, snapshot=_itself)

    def _datasets(self, max_bin: int) -> list[Any]:
        """Binned once a worker: that takes longer than many a trial trains."""
        if max_bin not in self._binned:
            lgb = lightgbm()
            rows, options = self.train_rows, _dataset_options(max_bin)
            columns = list(self.categorical)
            train_set = lgb.Dataset(rows.x, rows.y, categorical_feature=columns, params=options)
            sets = [train_set.construct()]
            tracked = [self.select_rows, *([self.confirm_rows] if self.confirms_each_round else [])]
            for part in tracked:
                valid_set = lgb.Dataset(part.x, part.y, reference=train_set, params=options)
                sets.append(valid_set.construct())
            self._binned[max_bin] = sets
        return self._binned[max_bin]

    def check(self, model: CreditModel | CreditScores) -> Estimate:
        """EOD on the selection rows."""
        return self._eod(self.select_rows, model.scores)

    def confirm(self, model: CreditModel) -> dict[str, Estimate]:
        """AUC and EOD on rows that the search never saw."""
        scores = model.confirm_scores
        if scores is None:
            scores = model.predict(self.confirm_rows.x)
        return {
            "auc": auc(self.confirm_rows.y, scores),
            "eod": self._eod(self.confirm_rows, scores),
        }

    def _eod(self, rows: Rows, scores: Array) -> Estimate:
        # a client counts as risky from the share of defaults on, as in the paper's set-up
        risky = self.train_rows.y.mean()
        return equalized_odds_difference(
            rows.y, scores, sensitive_features=rows.group, threshold=risky, stderr=True
        )


def _dataset_options(max_bin: int) -> dict[str, Any]:
    # without the pre-filter one data set serves every min_child_samples
    return {"max_bin": max_bin, "feature_pre_filter": False, "verbosity": -1}


def _itself(model: CreditModel | CreditScores) -> CreditModel | CreditScores:
    return model


def made_credit(clients: int = 30_000) -> CreditTask:
    """The task on clients made by code."""
    rng = np.random.default_rng(SEED)
    group = np.where(rng.random(clients) < 0.4, 1, 2)
    risk = rng.normal(size=clients)
    y = (rng.random(clients) < 1 / (1 + np.exp(1.6 - 1.1 * risk))).astype(float)
    numeric = [
        strength * risk + rng.normal(size=clients) * scale
        for strength, scale in zip(
            np.linspace(0.05, 0.5, 12), np.linspace(1.0, 1.6, 12), strict=True
        )
    ]
    codes = [
        np.clip(np.rint(strength * risk + rng.normal(size=clients)), -2, 4) + 2
        for strength in (0.2, 0.4, 0.6, 0.3)
    ]
    limit = _informative_for_one_group(rng.normal, y, group)
    x = np.column_stack([limit, *numeric, *codes])
    first_code = 1 + len(numeric)
    return _split(Rows(x, y, group), tuple(range(first_code, x.shape[1])), max_rounds=400)


def read_credit(path: Path) -> CreditTask:
    """The task on the UCI file 'default of credit card clients' (30,000 rows, CSV)."""
    rows, categorical = read_rows(path)
    return _split(rows, categorical, max_rounds=1000)


def read_rows(path: Path) -> tuple[Rows, tuple[int, ...]]:
    """Rows of the UCI file, and which columns are categorical."""
    import pandas

    try:
        table = pandas.read_csv(path)
    except (OSError, ValueError) as error:
        raise AcetuneError(f"cannot read {path} as CSV: {error}") from None
    missing = [name for name in ("SEX", "LIMIT_BAL", _TARGET, *_CATEGORICAL) if name not in table]
    if missing:
        raise AcetuneError(
            f"{path} has no column {missing[0]!r}; the UCI file 'default of credit card clients' "
            f"as CSV, with a column {_TARGET!r}, is expected"
        )
    y = table[_TARGET].to_numpy(dtype=float)
    group = table["SEX"].to_numpy()
    state = np.random.RandomState(SEED)
    table["LIMIT_BAL"] = _informative_for_one_group(state.normal, y, group)
    features = table.drop(columns=["ID", "SEX", _TARGET], errors="ignore")
    categorical = tuple(list(features.columns).index(name) for name in _CATEGORICAL)
    x = features.to_numpy(dtype=float)
    for column in categorical:  # LightGBM wants codes from 0
        x[:, column] -= x[:, column].min()
    return Rows(x, y, group), categorical


def _informative_for_one_group(normal: Any, y: Array, group: Array) -> Array:
    """The label with noise, but noise alone for group 1."""
    feature: Array = y + normal(0, 0.5, len(y))
    feature[group == 1] = normal(0, 0.5, int((group == 1).sum()))
    return feature


def _split(rows: Rows, categorical: tuple[int, ...], max_rounds: int) -> CreditTask:
    """60 % to train, 20 % to select by, 20 % to confirm on, with equal shares of defaults."""
    rng = np.random.default_rng(SEED)
    parts: list[list[Array]] = [[], [], []]
    for label in (0.0, 1.0):
        order = rng.permutation(np.flatnonzero(rows.y == label))
        bounds = (int(0.6 * len(order)), int(0.8 * len(order)))
        for part, chosen in zip(parts, np.split(order, bounds), strict=True):
            part.append(chosen)
    train, select, confirm = (rows.take(np.sort(np.concatenate(part))) for part in parts)
    return CreditTask(train, select, confirm, categorical, max_rounds)


def auc(y: Array, scores: Array) -> Estimate:
    """Area under the ROC curve, ties counted half, with the standard error of Hanley and McNeil.

    >>> round(auc(np.array([0, 0, 1, 1]), np.array([0.1, 0.4, 0.35, 0.8])).value, 2)
    0.75
    """
    positive = y > 0.5
    n1, n0 = int(positive.sum()), int((~positive).sum())
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    mean_ranks = np.cumsum(counts) - (counts - 1) / 2
    area = float((mean_ranks[place][positive].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (n1 - 1) * (q1 - area**2) + (n0 - 1) * (q2 - area**2)
    return Estimate(area, float(np.sqrt(max(0.0, variance) / (n1 * n0))))


def lightgbm() -> Any:
    """LightGBM, or an error that names the install command."""
    return import_extra("lightgbm", "LightGBM", "lightgbm")
