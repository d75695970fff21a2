"""LightGBM: a callback for ``lgb.train`` and for the scikit-learn classes.

Needs ``pip install 'acetune[lightgbm]'``.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any, Self

import numpy as np

from acetune.callbacks import _boosting
from acetune.callbacks._boosting import ANOTHER, Array, Rounds, choose_metric, require_direction
from acetune.core.errors import MissingExtraError, ReportError
from acetune.trial.trial import Trial

try:
    import lightgbm as lgb
except ImportError as error:
    raise MissingExtraError("LightGBM", "lightgbm") from error

__all__ = ["CHECKPOINT", "ReportCallback", "RoundModel"]

CHECKPOINT = "model.txt"  # in the folder that a resumed attempt finds as trial.checkpoint
_SIZES, _BLANK, _END = "\ntree_sizes=", "\n\n", "end of trees"  # in the text of a model


class RoundModel(_boosting.RoundModel):
    """A LightGBM model as it was after ``rounds`` rounds: what checks are called with.

    Attributes
    ----------
    rounds:
        How many rounds it has, those of an ``init_model`` included.
    scores:
        LightGBM's own predictions for the validation rows, which it keeps up to date anyway:
        probabilities, or what ``Booster.predict`` gives; raw scores with an objective of your own;
        rows by classes for several classes. An ``init_score`` of the rows is in them.
    booster:
        The ``lightgbm.Booster``.
    """

    def __init__(
        self, booster: Any, rounds: int, scores_on: str, text: TreeText, *, trees_change: bool
    ) -> None:
        super().__init__(booster, rounds)
        self._scores_on, self._trees_change = scores_on, trees_change
        self._text = text  # of the training: what other models have written is not written again

    def predict(self, data: Any, **options: Any) -> Any:
        """As ``Booster.predict``, with this many rounds.

        The scikit-learn classes' boosters give probabilities too, a column a class where there are
        more than two.
        """
        self._require_trees()
        return self._booster.predict(data, num_iteration=self.rounds, **options)

    def freeze(self) -> Self:
        """Take down the scores; with DART, which changes earlier trees, the trees as well."""
        _ = self.scores
        if self._trees_change:
            self._detach()
        return self

    def before_reload(self) -> None:
        """The booster is about to drop its data sets, and its trees after its best round."""
        if self._has_scores():
            _ = self.scores
        if 0 < self._booster.best_iteration < self.rounds:
            self._detach()

    def _detach(self) -> None:
        """Have the trees up to this round to oneself."""
        self._booster, self._trees_change = lgb.Booster(model_str=self._trees()), False
        self._text = TreeText()

    def _has_scores(self) -> bool:
        live = self._booster.current_iteration() == self.rounds
        return self._scores is not None or (live and hasattr(self._booster, "valid_sets"))

    def _read_scores(self) -> Array:
        if not self._has_scores():
            raise ReportError(
                f"the scores of round {self.rounds} were not asked for at that round, and LightGBM "
                "has gone on; use predict"
            )
        return kept_scores(self._booster, self._scores_on)

    def _require_trees(self) -> None:
        there = self._booster.current_iteration()
        if there < self.rounds or (self._trees_change and there > self.rounds):
            raise ReportError(
                f"the model of round {self.rounds} was not kept: the booster is at round {there}, "
                "and has dropped or changed trees since"
            )

    def _trees(self) -> str:
        self._require_trees()
        text = TreeText() if self._trees_change else self._text
        return text.at(self._booster, self.rounds)

    def __getstate__(self) -> dict[str, Any]:
        scores = self.scores if self._has_scores() else None
        state = {**self.__dict__, "_scores": scores, "_trees_change": False}
        return {**state, "_booster": self._trees(), "_text": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._text = TreeText()
        self._booster = lgb.Booster(model_str=state["_booster"])


class ReportCallback:
    """Reports each round of a LightGBM training to a trial, and ends it when the trial is stopped.

    For ``lgb.train(..., callbacks=[...])`` and for ``fit(..., callbacks=[...])`` of the
    scikit-learn classes. Checks get a :class:`RoundModel`. A stopped training returns as after
    LightGBM's early stopping: ``best_iteration`` is the round with the best objective (with DART
    the last one: fewer of its trees are not the model of an earlier round).

    Parameters
    ----------
    trial:
        The trial. Its last step is taken from LightGBM.
    valid:
        The validation set that the objective is measured on; may be left out where there is one.
    metric:
        The metric that is the objective; may be left out where there is one, or where one has the
        objective's name.
    scores_on:
        The validation set whose scores checks see; ``valid`` by default.
    checkpoint_every:
        Save the model every this many rounds, for an attempt after a failure: give the training
        :attr:`init_model` and :meth:`rounds_left`.

    >>> import lightgbm as lgb
    >>> def train(trial):
    ...     report = ReportCallback(trial, checkpoint_every=20)
    ...     lgb.train(
    ...         {**trial.params, "objective": "binary", "metric": "auc"},
    ...         fit_rows,
    ...         num_boost_round=report.rounds_left(100),
    ...         valid_sets=[select_rows],
    ...         init_model=report.init_model,
    ...         callbacks=[report],
    ...     )
    """

    def __init__(
        self,
        trial: Trial,
        *,
        valid: str | None = None,
        metric: str | None = None,
        scores_on: str | None = None,
        checkpoint_every: int | None = None,
    ) -> None:
        # after LightGBM's record_evaluation (20), before its early_stopping (30), which raises;
        # LightGBM looks for these on the object, not on its class
        self.order, self.before_iteration = 25, False
        self._rounds = Rounds(trial, checkpoint_every, CHECKPOINT)
        self._valid, self._metric, self._scores_on = valid, metric, scores_on
        self._training: weakref.ref[Any] | None = None
        self._models: weakref.WeakSet[RoundModel] = weakref.WeakSet()
        self._text = TreeText()
        self._trees_change = False
        self._best: tuple[float, int, Any] | None = None  # loss, last tree's round, all results

    @property
    def init_model(self) -> Path | None:
        """The model that an earlier attempt has saved, for ``init_model=``; None in a first one."""
        return self._rounds.saved_model

    def rounds_left(self, total_steps: int) -> int:
        """How many of all rounds are still to be made, for ``num_boost_round=``.

        All of them in a first attempt; after a failure those after :attr:`init_model`.
        """
        return self._rounds.left(total_steps)

    def __call__(self, env: Any) -> None:
        """A round has been made and evaluated."""
        if self._training is None:
            self._begin(env)
        elif self._training() is not env.model:
            raise ReportError(ANOTHER)
        value = self._value(env.evaluation_result_list)
        booster, scores_on = env.model, self._scores_on or self._valid
        assert scores_on is not None  # chosen when training began
        rounds = booster.current_iteration()
        model = RoundModel(booster, rounds, scores_on, self._text, trees_change=self._trees_change)
        self._models.add(model)
        made = env.iteration - env.begin_iteration + 1
        self._rounds.report(
            value, made, model, lambda file: booster.save_model(file, num_iteration=-1)
        )
        loss = self._rounds.trial.objective.loss(value)
        if self._best is None or loss < self._best[0]:
            self._best = loss, rounds - 1, env.evaluation_result_list
        if self._rounds.trial.should_stop:
            best = rounds - 1, env.evaluation_result_list
            if not self._trees_change:  # with DART fewer trees are not the model of that round
                best = self._best[1:]
            raise lgb.callback.EarlyStopException(*best)

    def _begin(self, env: Any) -> None:
        if not isinstance(env.model, lgb.Booster):
            raise ReportError(
                "lgb.cv trains several boosters at once, and a trial has one model; use lgb.train"
            )
        results = env.evaluation_result_list
        if not results:
            raise ReportError(
                "LightGBM evaluated nothing: give lgb.train valid_sets=[...], or fit eval_X=... "
                "and eval_y=... (eval_set=[...] before LightGBM 4.7), and a metric"
            )
        found: dict[str, list[str]] = {}
        for name, metric, *_ in results:
            found.setdefault(name, []).append(metric)
        objective, training = self._rounds.trial.objective, train_name(env.model)
        self._valid, self._metric = choose_metric(
            found, self._valid, self._metric, objective.name, training=training, option="valid"
        )
        if self._scores_on is not None and self._scores_on not in found:
            raise ReportError(
                f"nothing was evaluated on scores_on={self._scores_on!r}; there is {list(found)}"
            )
        chosen = (self._valid, self._metric)
        (higher,) = (bool(r[3]) for r in results if tuple(r)[:2] == chosen)
        require_direction("LightGBM", self._metric, higher, objective)
        boosting = {env.params.get(name) for name in ("boosting", "boosting_type", "boost")}
        self._trees_change = "dart" in boosting
        self._training = weakref.ref(env.model)
        env.model.model_from_string = _BeforeReload(env.model, self._models)
        before = self._rounds.begin(env.begin_iteration)
        self._rounds.declare(before + env.end_iteration - env.begin_iteration)

    def _value(self, results: Any) -> float:
        for name, metric, value, *_ in results:
            if (name, metric) == (self._valid, self._metric):
                return float(value)
        raise ReportError(f"LightGBM did not evaluate {self._metric!r} on {self._valid!r} again")


class _BeforeReload:
    """Stands in for a booster's ``model_from_string`` while it is trained.

    When ``lgb.train`` ends it reloads the booster from its trees up to ``best_iteration``: without
    its validation scores and, where LightGBM stopped early by another metric than the objective,
    without the trees of the trial's best checkpoint. Callbacks are not told. The models that the
    trial still holds take down what they need just before.
    """

    def __init__(self, booster: Any, models: weakref.WeakSet[RoundModel]) -> None:
        self._booster, self._models = weakref.ref(booster), models

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        booster: Any = self._booster()
        del booster.model_from_string  # the method of the class shows again
        for model in list(self._models):
            if model.booster is booster:
                model.before_reload()
        return booster.model_from_string(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        # a booster that is pickled during training gets its own method back
        return getattr, (self._booster(), "model_from_string")


# -- what is read out of a booster while it grows --------------------------------------------------


class TreeText:
    """The text of a booster that grows, at any of its rounds.

    Writing trees as text is most of the cost of keeping a LightGBM model: all of them at each new
    best would make it quadratic in the number of rounds. So the text of earlier trees is held, and
    only those that have come since are written.
    """

    def __init__(self) -> None:
        self._trees: list[str] = []

    def at(self, booster: Any, rounds: int) -> str:
        """What ``booster.model_to_string(num_iteration=rounds)`` gives, to be loaded again.

        Only the listing of feature importances differs, which LightGBM does not read.
        """
        wide = booster.num_model_per_iteration()
        start = max(0, min(len(self._trees) // wide, rounds - 1))  # what surrounds trees is needed
        text: str = booster.model_to_string(start_iteration=start, num_iteration=rounds - start)
        found = _split(text)
        if found is None:  # a format that is not known here
            whole: str = booster.model_to_string(num_iteration=rounds)
            return whole
        head, new, tail = found
        if start * wide == len(self._trees):
            first = len(self._trees)
            self._trees += [_numbered(tree, first + i) for i, tree in enumerate(new)]
        trees = self._trees[: rounds * wide]
        sizes = " ".join(str(len(tree)) for tree in trees)
        return "".join([head, _SIZES, sizes, _BLANK, *trees, tail])


def _split(text: str) -> tuple[str, list[str], str] | None:
    """What stands before the trees, the trees, and what stands after them; None if unclear."""
    head, _, rest = text.partition(_SIZES)
    sizes, _, rest = rest.partition(_BLANK)
    trees: list[str] = []
    at = 0
    for size in sizes.split():  # of plain ASCII: as many characters as bytes
        trees.append(rest[at : at + int(size)])
        at += int(size)
    sound = all(tree.startswith("Tree=") for tree in trees)
    return (head, trees, rest[at:]) if sound and rest.startswith(_END, at) else None


def _numbered(tree: str, number: int) -> str:
    """The tree under its number in the whole model."""
    _, _, body = tree.partition("\n")
    return f"Tree={number}\n{body}"


def kept_scores(booster: Any, name: str) -> Array:
    """A copy of the predictions that a booster keeps for one of its data sets."""
    names: list[str] = booster.name_valid_sets
    index = 1 + names.index(name) if name in names else 0
    read = getattr(booster, "_Booster__inner_predict", None)
    if read is not None:  # the public way below evaluates all metrics once more
        return np.array(read(data_idx=index))
    seen: list[Array] = []

    def keep(scores: Array, _: Any) -> tuple[str, float, bool]:
        seen.append(np.array(scores))
        return "seen", 0.0, True

    booster.eval([booster.train_set, *booster.valid_sets][index], name, keep)
    return seen[0]


def train_name(booster: Any) -> str:
    """What a booster calls its training data among what it evaluates; empty if that is not clear.

    A validation set may have the name that the training data have by default.
    """
    name: str = getattr(booster, "_train_data_name", "training")
    return "" if name in booster.name_valid_sets else name
