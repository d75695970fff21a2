"""A Ray Tune scheduler that stops trials by objective and constraints together."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ray.tune.schedulers import FIFOScheduler

from acetune.core.did_you_mean import suggesting
from acetune.core.errors import GoalError, StudyError
from acetune.core.goals import Constraint, Goals, Mode, Objective, constraint_list
from acetune.core.numbers import require_whole
from acetune.core.reason import RAISED, Reason, Wording, shortened, stated
from acetune.policies import Policy, make_policy
from acetune.ray import _result_format as wire
from acetune.ray._experiment import STUDY_NAME, Experiment, logger
from acetune.ray._storage import Storage
from acetune.ray.broadcast import Terms
from acetune.study.opening import require_on_changed_check, study_path
from acetune.study.store import Durability, require_durability
from acetune.trial.link import Report

_OTHER_NAMES = {
    "objective": 'metric="auc"',
    "direction": 'mode="max"',
    "searcher": "TuneConfig(search_alg=AceSearch(...))",
    "max_trials": "TuneConfig(num_samples=100)",
    "time_budget_s": "TuneConfig(time_budget_s=600)",
    "workers": "TuneConfig(max_concurrent_trials=4)",
    "constraint": "constraints=[...]",
    "limits": "constraints=[...]",
    "confirm": "acetune.tune(..., engine='ray'), which looks at fresh data",
}
_BAD_REPORT = Wording("bad_report", "its report makes no sense: {error}")
_FAILED_IN_RAY = Reason(Wording("failed_in_ray", "it failed in Ray"))


class AceScheduler(FIFOScheduler):  # type: ignore[misc]  # ray is not typed
    """Goes into ``tune.TuneConfig(scheduler=...)``, beside any search algorithm.

    Trials report through :func:`acetune.ray.trial`. The objective is the ``metric`` of the
    ``TuneConfig``, or the one given here.

    Parameters
    ----------
    constraints:
        The limits a checkpoint must keep. Checks may stand here or in ``trial.report``.
    policy:
        When to check and which trials to stop: a policy or its name;
        :class:`~acetune.Adaptive` by default.
    metric, mode:
        What to optimise, where the ``TuneConfig`` does not say it.
    study:
        The study file, on a disk of the driver's machine; ``acetune.db`` in the folder of the
        experiment by default. A file that exists is gone on with.
    confirm_top:
        The gate compares with this many-th best valid trial.
    keep_models:
        Of how many of the best trials models are kept: those that ``report(model=...)`` was given.

    on_changed_check:
        Where the check of a constraint was changed since the study file was begun: ``"refuse"``
        (default) raises ``StudyChangedError``, ``"accept"`` goes on with values of both checks.
    durability:
        What acknowledged reports outlast: ``"process"`` (default) that any process is killed,
        ``"power"`` a power cut too, at the price of waiting for the disk at each.

    >>> from acetune import Constraint
    >>> AceScheduler([Constraint("eod", upper=0.25)], "ace:truncation=0.5")  # doctest: +ELLIPSIS
    AceScheduler(eod <= 0.25; ACE(truncation=0.5, interval='adaptive', ...))
    """

    _supports_buffered_results = False  # each report waits for its decision

    @suggesting(_OTHER_NAMES)
    def __init__(
        self,
        constraints: Sequence[Constraint] = (),
        policy: Policy | str | None = None,
        *,
        metric: str | None = None,
        mode: Mode | None = None,
        study: str | Path | None = None,
        confirm_top: int = 1,
        keep_models: int = 3,
        on_changed_check: Literal["refuse", "accept"] = "refuse",
        durability: Durability = "process",
    ) -> None:
        super().__init__()
        self._constraints = constraint_list(constraints)
        self._policy = make_policy(policy)
        if self._policy.checks_after_run:
            raise GoalError(
                f"{self._policy!r} checks constraints after the run, and a Tuner has no place for "
                "that; use constraints='callback', or acetune.tune(..., engine='ray')"
            )
        require_on_changed_check(on_changed_check, measure_again=False)
        require_durability(durability)
        require_whole("confirm_top", confirm_top, least=1)
        require_whole("keep_models", keep_models, least=1)
        Goals(Objective("objective", "min"), self._constraints)  # complains now, not in fit()
        self._own = metric, mode
        self._metric, self._mode = metric, mode
        self._study = None if study is None else study_path(study)
        self._confirm_top, self._keep_models = confirm_top, keep_models
        self._on_changed_check, self._durability = on_changed_check, durability
        self._experiment: Experiment | None = None
        self._latest: dict[str, object] = {}  # by trial: which result was seen last

    def __repr__(self) -> str:
        limits = ", ".join(limit.describe() for limit in self._constraints) or "no constraints"
        return f"{type(self).__name__}({limits}; {self._policy!r})"

    def __getstate__(self) -> dict[str, Any]:
        """As it was before the first trial: what Ray saves; the rest is in the study file."""
        return {**self.__dict__, "_experiment": None, "_latest": {}}

    # -- what Ray Tune calls ---------------------------------------------------------------------

    def set_search_properties(self, metric: str | None, mode: Mode | None, **spec: object) -> bool:
        """Metric and mode of the TuneConfig; False if they were given here too."""
        own_metric, own_mode = self._own
        if (own_metric and metric) or (own_mode and mode):
            return False
        self._metric, self._mode = metric or own_metric, mode or own_mode
        if self._metric is None or self._mode is None:
            raise GoalError(
                "AceScheduler needs an objective: give TuneConfig(metric=..., mode=...), got "
                f"metric={self._metric!r}, mode={self._mode!r}"
            )
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        """The first trial tells where the experiment lives."""
        storage = Storage(trial.storage)
        if self._experiment is None or self._experiment.experiment != storage.experiment:
            if self._experiment is not None:
                self._experiment.close()
            self._experiment = self._open(storage)
            weakref.finalize(self, self._experiment.close)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        """Decide on a report. One that makes no sense ends its trial, and not the experiment."""
        self._latest[trial.trial_id] = _which(result)
        try:
            message = self._message(result)
            folder = message.best.model if message.best is not None else ""
            model = Storage(trial.storage).kept(folder) if folder else None
            stop = self._opened.take(trial.trial_id, trial.config, message, model)
        except StudyError:
            raise  # the study file cannot be written: nothing that follows would be remembered
        except Exception as error:
            reason = Reason(_BAD_REPORT, {"error": f"{type(error).__name__}: {error}"})
            logger.exception("trial %s is stopped, %s", trial, reason)
            self._opened.failed(trial.trial_id, trial.config, reason)
            stop = True
        return str(self.STOP if stop else self.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        """A trial ended: by itself, by our decision or by Ray's."""
        # Ray does not ask about a result that meets a criterion of its own: then it is new here
        new = self._metric in result and _which(result) != self._latest.get(trial.trial_id)
        if new:
            self.on_trial_result(tune_controller, trial, result)
        self._latest.pop(trial.trial_id, None)
        self._opened.ended(trial.trial_id, by_ray=new)

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        """A trial failed; Ray may try it again, which makes another attempt of it."""
        text = ""
        with contextlib.suppress(OSError, TypeError):  # no file, or one of another machine
            text = Path(trial.error_file).read_text(errors="replace")
        text = text.rpartition("Failure #")[2].strip()
        last_line = text.rpartition("\n")[2].strip()
        reason = stated(RAISED, shortened(last_line)) if last_line else _FAILED_IN_RAY
        self._opened.failed(trial.trial_id, trial.config, reason, shortened(text) or None)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        """A trial that never ran has nothing to say."""

    def choose_trial_to_run(self, tune_controller: Any) -> Any:
        """As FIFO. Called again and again, so this is where time passes."""
        if self._experiment is not None:
            self._experiment.beat()
        return super().choose_trial_to_run(tune_controller)

    def debug_string(self) -> str:
        """How the search stands, for Ray's own progress display."""
        return (
            repr(self) if self._experiment is None else f"{self!r}: {self._experiment.describe()}"
        )

    # -- inside ----------------------------------------------------------------------------------

    @property
    def _opened(self) -> Experiment:
        assert self._experiment is not None, "Ray adds a trial before it reports"
        return self._experiment

    def _open(self, storage: Storage) -> Experiment:
        path, folder = self._study, storage.local_experiment
        if path is None:
            if folder is None:
                raise GoalError(
                    "the experiment is not kept in a local folder, so the study file needs a "
                    "place: AceScheduler(study='...') on a disk of this machine"
                )
            path = folder / STUDY_NAME
        # set_search_properties has seen to both
        assert self._metric is not None and self._mode is not None
        goals = Goals(Objective(self._metric, self._mode), self._constraints)
        terms = Terms(goals, self._policy, self._confirm_top, self._keep_models)
        changed, durability = self._on_changed_check, self._durability
        return Experiment(path, storage.experiment, terms, folder, changed, durability)

    def _message(self, result: Mapping[str, Any]) -> wire.Message:
        """The report in a result; one without acetune.ray.trial is taken as never checked."""
        if wire.REPORT in result:
            return wire.decode(result[wire.REPORT])
        assert self._metric is not None
        attempt = wire.Attempt("plain", None, None, None, 0.0, 0)
        report = Report(int(result["training_iteration"]), result[self._metric])
        notice = "reports without acetune.ray.trial(): its constraints are never checked"
        return wire.Message(attempt, report, notice=notice)


def _which(result: Mapping[str, Any]) -> object:
    """What a result is known again by."""
    return result.get(wire.REPORT, result.get("training_iteration"))
