"""The driver's side of an experiment: takes results, lets the coordinator decide, remembers.

Everything is in the study file before Ray lets a trial go on, so a killed driver loses nothing it
had decided: a restored experiment reads the file again.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acetune.core.measured_costs import Costs
from acetune.core.reason import Reason, Wording
from acetune.core.say_once import SayOnce
from acetune.policies.stopper import stopper_of
from acetune.ray import _result_format as wire
from acetune.ray.broadcast import Publisher, Terms, View
from acetune.study.coordinator import StudyCoordinator
from acetune.study.findings import RAY_TUNE
from acetune.study.opening import OnChangedCheck, describe_study, open_study
from acetune.study.session import Session, StudyTrial
from acetune.study.store import Durability, Store
from acetune.trial.checks import notice_bad_checks, timed_out

logger = logging.getLogger("acetune.ray")

STUDY_NAME = "acetune.db"  # in the folder of the experiment, unless the user names another
_ENDED = Reason(Wording("experiment_ended", "the experiment ended"))
_CUT_OFF = Reason(Wording("ended_by_ray", "Ray ended the experiment"))
_LOST = Reason(Wording("lost_by_ray", "its worker was lost"))
_BEAT_S = 1.0
_NEWS_S = 0.2
_open: dict[
    Path, Experiment
] = {}  # in this process: an experiment restored here takes over the file


def experiment_with(trials: Collection[str]) -> Experiment | None:
    """The experiment, open in this process, that one of these trials has reported to."""
    for one in _open.values():
        if any(name in trials for name in one.trial_names):
            return one
    return None


def close_experiment(folder: str) -> None:
    """Close the study of the experiment in this folder, if it is open in this process."""
    for one in list(_open.values()):
        if one.experiment.partition(":")[2] == folder:
            one.close()


class Experiment:
    """One experiment, from its first trial to its end."""

    def __init__(
        self,
        path: Path,
        experiment: str,
        terms: Terms,
        folder: Path | None = None,
        on_changed_check: OnChangedCheck = "refuse",
        durability: Durability = "process",
    ) -> None:
        if path in _open:
            _open[path].close()
        goals = terms.goals
        stopper = stopper_of(goals, terms.policy, terms.confirm_top)
        self._notice = SayOnce(logger.warning)
        stopper.on_repeat = partial(self._notice, about="repeated report")
        settings = {
            "engine": RAY_TUNE,
            "confirm_top": terms.confirm_top,
            "keep_models": terms.keep_models,
            "durability": durability,
        }
        packages = ("acetune", "ray", "numpy")
        description = describe_study(goals, (), terms.policy, {}, settings, packages=packages)
        self.store: Store = open_study(
            path,
            description,
            folder,
            on_changed_check,
            "a Tuner has no place to measure kept models again",
        )
        self.store.outlast(durability)
        for text in self.store.notices:
            self._notice(text)
        self.coordinator = StudyCoordinator(self.store, stopper, terms.keep_models)
        try:
            with self.store.understanding():
                self.coordinator.load()
        except BaseException:
            self.store.close()
            raise
        self.experiment = experiment
        self._terms = terms
        self._numbers = self.store.names()  # of Ray's trials
        self._names = {number: name for name, number in self._numbers.items()}
        self._tokens: dict[int, str] = {}  # of the run whose reports are being taken
        self._noted_models: dict[int, str] = {}  # of trials: their latest model
        self._closed = False
        self._news, self._published = False, 0.0
        self._publisher = Publisher(experiment, terms)
        self._publisher.publish(self._view())
        self._last_beat = time.monotonic()
        self._session = Session(self.store)
        self._session.begin()
        _open[path] = self

    # -- what the scheduler says -----------------------------------------------------------------

    def take(
        self,
        name: str,
        params: Mapping[str, Any],
        message: wire.Message,
        model: str | None = None,
    ) -> bool:
        """The reports in a result; returns whether the trial is to stop.

        ``model`` is where the model of its best valid checkpoint lies, in the experiment's folder.
        """
        if message.notice:
            self._notice(f"trial {name}: {message.notice}")
        with self.store.transaction():
            trial = self._attempt(name, params, message.attempt)
            record = trial.begun.record
            before = record.best_valid
            if model is not None and message.best is not None:
                self._note_model(trial, message.best, model)
            stop = False
            if message.report is not None:
                stop = self.coordinator.report(trial, message.report).stop
            if message.closed:
                self.coordinator.finish(trial, message.end)
        self.coordinator.kept_models.sweep()
        report = message.report or message.end
        if report is not None:
            notice_bad_checks(self._terms.goals, name, report, self._notice)
        learned = self._terms.policy.learns and record.last_check is not None
        self._news |= record.best_valid is not before or learned
        self._publish_news()
        return stop

    def ended(self, name: str, by_ray: bool) -> None:
        """A trial ended that did not fail: its function returned, or a criterion of Ray's said so.

        A criterion of Ray's leaves no time for the check that would be due then.
        """
        trial = self._known(name)
        if trial is None:
            return
        if trial.running:
            if not by_ray and trial.handle is not None and trial.handle.ending_due() is not None:
                self._notice(
                    f"trial {name} ended before its last step without a word, perhaps with a check "
                    "due; use 'with acetune.ray.trial(...) as trial:', or call trial.close() last"
                )
            with self.store.transaction():
                self.coordinator.finish(trial, None)
            self.coordinator.kept_models.sweep()
        self._publisher.publish(self._view(), wait=True)

    def failed(
        self, name: str, params: Mapping[str, Any], reason: Reason, traceback: str | None = None
    ) -> None:
        """A trial ended with an error; Ray may try it again."""
        words = self._publisher.last_words(name)
        with self.store.transaction():
            trial = self._known(name)
            if words is not None:
                self._fail_check(name, params, wire.decode(words))
            elif trial is None:
                self.coordinator.fail(self._add(name, params), reason, traceback)
            else:
                if trial.handle is not None and trial.handle.state in ("failed", "interrupted"):
                    trial = self.coordinator.add_attempt(trial.number, 0)  # it never reported
                self.coordinator.fail(trial, reason, traceback)
        self._publisher.publish(self._view(), wait=True)

    def _fail_check(self, name: str, params: Mapping[str, Any], message: wire.Message) -> None:
        """A check that did not return has taken its trial along."""
        trial, report = self._attempt(name, params, message.attempt), message.report
        assert report is not None
        timeouts = {c.name: c.timeout_s for c in self._terms.goals.constraints}
        timeout = timeouts[message.overdue]
        assert timeout is not None  # it has ended the trial
        self.coordinator.fail_check(trial, report, timed_out(message.overdue, timeout))

    def beat(self) -> None:
        """Now and then: the broadcast is looked after, and the file knows how long it has taken."""
        self._publish_news()
        now = time.monotonic()
        if now - self._last_beat >= _BEAT_S:
            self._last_beat = now
            self._publisher.look_after()
            self._session.beat()

    @property
    def trial_names(self) -> Collection[str]:
        """What Ray calls the trials that have reported."""
        return self._numbers.keys()

    @property
    def costs(self) -> Costs:
        """What training and checking have cost so far."""
        return self.coordinator.stopper.history.costs

    def describe(self) -> str:
        """How the search stands, in a line."""
        stopper = self.coordinator.stopper
        strata = ", ".join(f"{n} {stratum}" for stratum, n in stopper.history.strata.items())
        best = stopper.best
        if best is None:
            return f"nothing feasible yet; reports: {strata}"
        name = self._name(int(best.trial))
        value = f"{stopper.goals.objective.name} {best.value:.5g}"
        return f"best feasible {value} (trial {name}, step {best.step}); reports: {strata}"

    def close(self) -> None:
        """The experiment is over. Trials that Ray has cut off can go on in another one."""
        if self._closed:
            return
        self._closed = True
        if _open.get(self.store.path) is self:
            del _open[self.store.path]
        with self.store.transaction():
            for trial in self.coordinator.trials.values():
                if trial.running:
                    self.coordinator.interrupt(trial, _CUT_OFF)
        self._session.end(_ENDED)  # as long as the last beat says
        self.store.close()
        self._publisher.close()

    # -- inside ----------------------------------------------------------------------------------

    def _known(self, name: str) -> StudyTrial | None:
        number = self._numbers.get(name)
        return None if number is None else self.coordinator.trials[number]

    def _add(self, name: str, params: Mapping[str, Any]) -> StudyTrial:
        forgotten = self._numbers.get(name)
        if forgotten is not None:
            del self._names[forgotten]
        trial = self.coordinator.add_trial(_plain(params))
        self.store.name_trial(trial.number, name)
        self._numbers[name], self._names[trial.number] = trial.number, name
        return trial

    def _attempt(self, name: str, params: Mapping[str, Any], attempt: wire.Attempt) -> StudyTrial:
        """The trial, with the attempt that reports: another run of the trainable is another one."""
        trial = self._known(name)
        if trial is not None and self._goes_on(trial, attempt.token):
            if attempt.total_steps is not None and trial.handle is not None:
                known = trial.handle.record.progress.total_steps
                if known != attempt.total_steps:
                    self.coordinator.declare(trial, attempt.total_steps)
            return trial
        if trial is None or trial.params != _plain(params):
            # the latter: restored from before it made this trial, Ray makes another by its name
            trial = self._add(name, params)
            trial.resumed_from = attempt.resumed_from
        else:
            if trial.running:
                self.coordinator.interrupt(trial, _LOST)
            trial = self.coordinator.add_attempt(trial.number, attempt.resumed_from)
        self._tokens[trial.number] = attempt.token
        chosen = attempt.interval, attempt.cost_ratio
        self.coordinator.begin(trial, attempt.total_steps, attempt.startup_s, chosen)
        if attempt.hardware:
            self.coordinator.note_hardware(trial, attempt.hardware)
        return trial

    def _note_model(self, trial: StudyTrial, best: wire.Best, model: str) -> None:
        """Note where a model lies: models are pruned, and found again, as in any other study."""
        if self._noted_models.get(trial.number) != model:
            self._noted_models[trial.number] = model
            kept_models = self.coordinator.kept_models
            kept_models.add_model(trial, best.step, model, best.size, best.digest)

    def _goes_on(self, trial: StudyTrial, token: str) -> bool:
        """Whether it is the same run of the trainable that reports."""
        same = self._tokens.get(trial.number) == token
        return same and trial.handle is not None and trial.handle.state != "failed"

    def _name(self, number: int) -> str:
        """Ray's name of a trial; one that Ray has forgotten has none."""
        return self._names.get(number, f"#{number}")

    def _view(self) -> View:
        history = self.coordinator.stopper.history
        most = max(self._terms.confirm_top, self._terms.keep_models)
        valid = [record.best_valid for record in history.trials.values() if record.best_valid]
        found = heapq.nsmallest(most, ((best.loss, self._name(int(best.trial))) for best in valid))
        return View(
            history.costs,
            tuple(found),
            history.median_violation,
            history.largest_violation,
            history.trend if self._terms.policy.learns else None,
        )

    def _publish_news(self) -> None:
        """A better f*, but not more often than workers would look: publishing takes a while."""
        now = time.monotonic()
        if self._news and now >= self._published + _NEWS_S:
            self._news, self._published = False, now
            self._publisher.publish(self._view())


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration as the file can hold it: what JSON cannot say is described."""
    return {str(name): _described(value) for name, value in params.items()}


def _described(value: object) -> Any:
    if isinstance(value, Mapping):
        return _plain(value)
    if isinstance(value, (list, tuple)):
        return [_described(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)
