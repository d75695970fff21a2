"""What is done with kept models outside of the search: late checks, and confirmation."""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from acetune.certification.account import Account
from acetune.certification.bounds import normal_quantile
from acetune.certification.candidates import Position, choose
from acetune.certification.evidence import Evidence, Exact, Refused, evidence_of
from acetune.certification.planning import more_rows
from acetune.core.errors import ReportError
from acetune.core.formatting import count
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, as_measurement
from acetune.run._driver import Driver
from acetune.run._messages import Evaluate, Evaluated
from acetune.run.study_callbacks import Listeners
from acetune.study.answer import answer_of, candidates_of, testable
from acetune.study.best_checkpoints import valid_at
from acetune.study.claims import no_recommendation
from acetune.study.coordinator import StudyCoordinator
from acetune.study.findings import (
    SUSPICIOUS,
    Bound,
    CheckpointKey,
    FoundCheckpoint,
    Status,
    chance_of_the_same,
    checkpoint_key,
    judge_fresh,
    looks_of_earlier_checks,
)
from acetune.study.limit_changes import limits_at
from acetune.study.reader import StudyView
from acetune.study.result import StudyResult
from acetune.trial.artifacts import Kept
from acetune.trial.checks import takes_model

_SAFE_ENOUGH = 2.5  # standard errors beyond what passes: more makes a certificate no likelier


def check_after_run(
    driver: Driver, coordinator: StudyCoordinator, wanted: int, at_once: int
) -> None:
    """Check trials from the best objective down until enough are feasible."""
    waiting = coordinator.kept_models.waiting_for_check()
    history = coordinator.stopper.history
    while waiting and waiting[0][0] < history.kth_best(wanted) and not driver.interrupted:
        wave, waiting = waiting[:at_once], waiting[at_once:]
        results = _check(driver, [kept for *_, kept in wave])
        with coordinator.store.transaction():
            for (_, trial, step, _), result in zip(wave, results, strict=True):
                if result is not None:
                    _take_check(coordinator, trial, step, result)
    with coordinator.store.transaction():
        coordinator.kept_models.prune_after_run()
    coordinator.kept_models.sweep()


def why_not_again(goals: Goals) -> str | None:
    """Why kept models cannot be measured again by the checks of the study; None: they can."""
    for limit in goals.constraints:
        if limit.check is None:
            return f"the check of {limit.name!r} comes with report(constraints=...)"
        if not takes_model(limit.check):
            return f"the check of {limit.name!r} takes no model, and sees the current step only"
    return None


def measure_again(driver: Driver, coordinator: StudyCoordinator, listeners: Listeners) -> None:
    """Measure the kept models by a changed check, if that was asked for now or in a session before.

    What is interrupted goes on in the next session: models that have no value yet wait for one.
    """
    store = coordinator.store
    if store.waiting_change() is None:
        return
    waiting, lost = coordinator.kept_models.waiting_to_be_measured_again()
    results = _check(driver, [kept for *_, kept in waiting])
    with store.transaction():
        for (_, trial, step, _), result in zip(waiting, results, strict=True):
            if result is not None:
                _take_check(coordinator, trial, step, result)
        if None in results:
            return  # cut off by the user
        store.end_check_changes(time.time())
        coordinator.kept_models.prune_after_run()
    coordinator.kept_models.sweep()
    text = f"{count(len(waiting), 'kept model')} measured again by the changed check"
    if lost:
        text += f"; {count(lost, 'model')} of replaced attempts left out"
    listeners.notice(f"{text}; all other checkpoints count as never checked")


def _settled(view: StudyView, data: str | None) -> int:
    """How many candidates the latest look had, if the same call again has nothing to find out.

    The answer is certified, and nothing was reported or judged by other limits since these rows
    were looked at. Whoever makes that call wants the answer, not a look that uses up a part of the
    level.
    """
    answer = answer_of(view)
    if answer is None or answer.status != "certified":
        return 0
    since = [*view.reports.time[-1:].tolist(), *(one["time"] for one in view.limit_changes)]
    looks = [
        len(look["candidates"])
        for look in view.looks
        if look["ended"] is not None
        and look["data"] == data
        and look["started"] >= max(since, default=-math.inf)
    ]
    return looks[-1] if looks else 0


def _take_check(coordinator: StudyCoordinator, trial: int, step: int, result: Evaluated) -> None:
    """What the checks of a kept model have given."""
    measured = result.measured
    if result.error is not None:
        failed = FailedCheck(result.error)
        measured = {c.name: failed for c in coordinator.goals.constraints}
    coordinator.check_after_run(trial, step, measured, result.costs)


def confirm_best(
    driver: Driver,
    coordinator: StudyCoordinator,
    top: int,
    listeners: Listeners,
    data: str | None = None,
) -> None:
    """Test kept checkpoints on fresh data and issue certificates. Each use is recorded.

    What will be tested, and in which order, is written before fresh data is touched, and depends on
    the search alone: nothing that fresh data has said so far. A look that was cut off, or in which
    ``confirm`` went wrong, goes on with the candidates that it has listed; others cost another one.
    A checkpoint that a look has listed is not tested again on the same rows (``data`` names them).
    One whose model is broken is not chosen: that is known without fresh data.

    The test ends with the first candidate that is not certified. Where none was, better ones are
    measured from the best down, until one holds: it is the answer, without a certificate.
    """
    look = _Look.planned(coordinator, top, listeners, data)
    if look is None:
        return
    certified: FoundCheckpoint | None = None
    for place, found in look.places.items():  # from safe to bold
        status = look.status_of(place)
        if found is None or (status is None and found not in look.usable):
            break  # what is gone passes no test, and the sequence ends with the first such
        if certified is not None and look.loss(found) >= look.loss(certified):
            continue  # it would not be the answer
        if status is None:
            status = look.judge(driver, found, listeners, in_sequence=True)
        if status is None:
            return
        if status != "certified":
            break
        certified = found
    if certified is None:
        for found in sorted(look.usable, key=look.loss):
            status = look.status_of(checkpoint_key(found))
            status = status or look.judge(driver, found, listeners, in_sequence=False)
            if status is None:
                return
            if status == "holds":
                break
    look.end()
    look.say_suspicious(listeners)


class _Look:
    """One look at fresh data: what it tests is fixed, what it has found so far is in the file."""

    def __init__(
        self,
        coordinator: StudyCoordinator,
        number: int,
        level: float,
        places: Mapping[CheckpointKey, FoundCheckpoint | None],
        usable: Sequence[FoundCheckpoint],
        uses: Sequence[Mapping[str, Any]],
    ) -> None:
        self._coordinator, self._number, self._level = coordinator, number, level
        self.places, self.usable = places, usable  # all that was fixed; those whose model is there
        self._said: dict[CheckpointKey, Status] = {}
        self._asked: list[float] = []  # per model of this session: see chance_of_the_same
        for use in uses:
            # where confirm went wrong it is asked once more in this session
            if use["look"] == number and use["status"] != "unconfirmed":
                self._said[use["trial"], use["attempt"], use["step"]] = use["status"]

    @classmethod
    def planned(
        cls, coordinator: StudyCoordinator, top: int, listeners: Listeners, data: str | None
    ) -> _Look | None:
        """The look that is under way, or a new one; None if there is nothing new to test."""
        store = coordinator.store
        with StudyView(store.path, whole=True) as view, store.understanding():
            pool, looks, changes = testable(view), view.looks, view.limit_changes
            earlier = looks_of_earlier_checks(looks, view.check_changes)
            uses = view.tables["confirmations"]  # as they were judged then
            listed = [place for look in looks for place in look["candidates"]]
            known = {place: valid_at(view, *place) for place in listed}
            account = Account(view.info["confidence"], len(looks))
            settled = _settled(view, data)
            if not pool and candidates_of(view):
                listeners.notice(
                    "nothing can be confirmed: no model was kept; give it as report(..., model=...)"
                )
        number = len(looks) + 1
        if looks and looks[-1]["ended"] is None:
            number, under_way = looks[-1]["look"], looks.pop()
            if under_way["data"] == data:  # confirm may have been called: what was fixed stays
                fixed = {place: known[place] for place in under_way["candidates"]}
                usable = _usable([one for one in fixed.values() if one is not None], listeners)
                look = cls(coordinator, number, under_way["level"], fixed, usable, uses)
                look.say_gone(listeners)
                return look
            with store.transaction():  # on other rows another look begins
                store.end_look(number, time.time())
            looks.append(under_way)
            number += 1
        level = account.level(number)
        tested = {place for look in looks if look["data"] == data for place in look["candidates"]}
        # what is kept only because a look has listed it is no candidate for another
        best = coordinator.kept_models.best()
        usable = _usable([found for found in pool if checkpoint_key(found) in best], listeners)
        positions = positions_of(coordinator.goals, usable)
        enough = normal_quantile(1 - level) + _SAFE_ENOUGH
        chosen = [usable[i] for i in choose(positions, top, enough)]
        if settled >= min(top, len(usable)) > 0:
            listeners.notice(
                "the answer is certified, and nothing was reported since: fresh data is not looked "
                "at again"
            )
            return None
        candidates = [found for found in chosen if checkpoint_key(found) not in tested]
        if not candidates:
            return None
        before = [look["look"] for look in looks if look["data"] == data]
        for what, others in (
            ("limits", any(limits_at(changes, [], "look", number) for number in before)),
            ("checks", any(number in earlier for number in before)),
        ):
            if others:
                listeners.notice(
                    f"these fresh rows were looked at under other {what} before. A certificate is "
                    f"about the {what} in force when it is issued, and worth nothing if these were "
                    "chosen by what that look has said: then name other rows with confirm_data=..."
                )
        with store.transaction():
            store.put_look(number, level, data, list(map(checkpoint_key, candidates)), time.time())
        places = {checkpoint_key(found): found for found in candidates}
        return cls(coordinator, number, level, places, candidates, uses)

    def say_gone(self, listeners: Listeners) -> None:
        """Tell people what was fixed, was not tested yet and cannot be any more."""
        usable = set(map(checkpoint_key, self.usable))
        waiting = [place for place in self.places if place not in self._said]
        gone = [place for place in waiting if place not in usable]
        if not gone:
            return
        trials = ", ".join(str(trial) for trial, *_ in gone)
        ends = "nothing is tested" if gone == waiting else "the test ends before the first of them"
        listeners.notice(
            f"look {self._number} at fresh data was to test the models of trials {trials}, which "
            f"are gone: {ends}. The same call once more tests other candidates, in a new look"
        )

    def say_suspicious(self, listeners: Listeners) -> None:
        """Tell people where confirm seems to measure on the rows of the search."""
        number = len(self._asked)
        if number and max(self._asked) < 1 and math.prod(self._asked) <= SUSPICIOUS:
            models = "the model" if number == 1 else f"all {number} models"
            listeners.notice(
                f"confirm gave exactly what the search had measured, of {models}: are "
                "these the rows of the search? Rows that a model was chosen by are not fresh, and "
                "a certificate on them is worth nothing"
            )

    def loss(self, found: FoundCheckpoint) -> float:
        """The loss of a candidate in the search."""
        return self._coordinator.goals.objective.loss(found.value)

    def status_of(self, place: CheckpointKey) -> Status | None:
        """What this look has said of a candidate, in this session or in one before."""
        return self._said.get(place)

    def judge(
        self, driver: Driver, found: FoundCheckpoint, listeners: Listeners, *, in_sequence: bool
    ) -> Status | None:
        """Measure a candidate on fresh data, test it and write what came out.

        Only ``in_sequence``, where all before it have passed, can it be certified.
        None: the user has interrupted it, or ``confirm`` would go wrong for every other model too.
        """
        assert found.kept is not None  # only such are candidates
        result = driver.evaluate([Evaluate(str(found.kept.folder), confirm=True)])[0]
        if result is None:
            return None
        goals = self._coordinator.goals
        wrong = wrong_names(goals, result.measured) if result.error is None else None
        if result.certain:
            wrong = result.error
        status = self._record(found, result, wrong, in_sequence)
        self._said[checkpoint_key(found)] = status
        if status != "broken" and wrong is not None:
            listeners.notice(wrong)
            return None  # the fresh data is spared
        return status

    def _record(
        self, found: FoundCheckpoint, result: Evaluated, wrong: str | None, in_sequence: bool
    ) -> Status:
        """Write what ``confirm`` said of a checkpoint; returns the verdict."""
        goals, error = self._coordinator.goals, result.error or wrong
        values: dict[str, Estimate] = {}
        if result.error is None:
            for name, value in result.measured.items():
                try:
                    measured = as_measurement(value, f"confirmed {name!r}")
                except ReportError as not_a_number:
                    measured = FailedCheck(str(not_a_number))
                if isinstance(measured, FailedCheck):
                    error = error or measured.error
                else:
                    values[str(name)] = measured
        status = judge_fresh(goals, values, error)
        bounds: dict[str, Bound] = {}
        for limit in goals.constraints:
            if limit.name in values:
                bounds[limit.name] = self._bound(limit, result.measured[limit.name], found)
        passes = all(bound.passes for bound in bounds.values())
        if status == "holds" and passes and goals.constraints and in_sequence:
            status = "certified"
        self._asked.append(chance_of_the_same(goals, found, values, bounds))
        store = self._coordinator.store
        with store.transaction():
            store.add_confirmation(
                *checkpoint_key(found),
                status,
                values,
                error,
                time.time(),
                self._number,
                {name: asdict(bound) for name, bound in bounds.items()},
            )
        return status

    def _bound(self, limit: Constraint, value: object, found: FoundCheckpoint) -> Bound:
        """What can be claimed about a constraint at the level of this look."""
        try:
            evidence = evidence_of(limit, value)
            if isinstance(evidence, Exact) and limit.name in found.constraints:
                # of one model there is one such value: what is shown is the worse of two
                both = evidence.value, found.constraints[limit.name].value
                evidence = Exact(max(both) if limit.sense == "<=" else min(both))
            return self._bound_from(evidence, limit)
        except Exception as error:  # also of a user's own evidence: it certifies nothing
            why = f"its bound could not be computed: {type(error).__name__}: {error}"
            return self._bound_from(Refused(why), limit)

    def _bound_from(self, evidence: Evidence, limit: Constraint) -> Bound:
        refused = evidence.refused(limit.sense)
        until = getattr(evidence, "p_value_until", None)  # of a kind that may spare itself much
        if refused:
            p_value = 1.0
        elif until is not None:
            p_value = until(limit.limit, limit.sense, self._level)
        else:
            p_value = evidence.p_value(limit.limit, limit.sense)
        reach = math.nan if refused else evidence.bound(self._level, limit.sense)
        more = None
        if refused is None and p_value > self._level:
            account = Account(self._coordinator.store.study()["confidence"], self._number)
            own = getattr(evidence, "times_more", None)  # of a kind that knows better
            next_level = account.next_level
            more = more_rows(p_value, next_level) if own is None else own(limit.limit, next_level)
        return Bound(
            level=self._level,
            p_value=p_value,
            value=reach if math.isfinite(reach) else None,
            how=evidence.how,
            approximate=evidence.approximate,
            rows=evidence.rows,
            refused=refused,
            more_rows=more,
            unit=getattr(evidence, "unit", "rows"),
        )

    def end(self) -> None:
        """The test is over: on these rows none of its candidates is tested again.

        Not so where ``confirm`` went wrong: it may be fixed, and then the look goes on, with the
        same candidates.
        """
        if "unconfirmed" in self._said.values():
            return
        with self._coordinator.store.transaction():
            self._coordinator.store.end_look(self._number, time.time())


def _usable(candidates: Sequence[FoundCheckpoint], listeners: Listeners) -> list[FoundCheckpoint]:
    """The candidates whose model is there and whole; people are told of the others."""
    usable = []
    for found in candidates:
        fault = "was not kept" if found.kept is None else found.kept.fault()
        if fault is None:
            usable.append(found)
        elif found.kept is not None:
            text = f"trial {found.trial} cannot be confirmed: its model {found.kept.folder} {fault}"
            listeners.notice(text)
    return usable


def positions_of(goals: Goals, found: Sequence[FoundCheckpoint]) -> list[Position]:
    """Where candidates stand: their loss, and their distance to the nearest limit.

    In standard errors, or relative to the limit where there are none.
    """
    return [
        Position(goals.objective.loss(one.value), goals.safety(one.constraints)) for one in found
    ]


def say_rejected(result: StudyResult, listeners: Listeners) -> None:
    """Tell listeners, who know the best of the search alone, that fresh data rejected it."""
    if result.rejected is not None:
        listeners.notice(no_recommendation(result))


def _check(driver: Driver, models: Sequence[Kept]) -> list[Evaluated | None]:
    """Check kept models, but those that are missing, empty or changed."""
    looked = [(kept.folder, kept.fault()) for kept in models]
    whole = [Evaluate(str(folder), confirm=False) for folder, fault in looked if fault is None]
    came = iter(driver.evaluate(whole))
    return [
        next(came) if fault is None else Evaluated({}, {}, f"its model {folder} {fault}")
        for folder, fault in looked
    ]


def wrong_names(goals: Goals, answer: Mapping[str, object]) -> str | None:
    """What is wrong with the names in an answer of ``confirm``, whatever the values.

    Every constraint must be there. The objective may be left out, and other metrics may come with
    it, but not instead of it: such a name is more likely a misspelt objective.

    >>> from acetune.core.goals import Constraint, Objective
    >>> goals = Goals(Objective("auc", "max"), (Constraint("eod", upper=0.25),))
    >>> wrong_names(goals, {"eod": 0.2}), wrong_names(goals, {"eod": 0.2, "auc": 0.8, "f1": 0.7})
    (None, None)
    """
    objective, constraints = goals.objective.name, [c.name for c in goals.constraints]
    unknown = [name for name in answer if name != objective and name not in constraints]
    missing = [name for name in constraints if name not in answer]
    rules = f"it must return every constraint ({', '.join(map(repr, constraints)) or 'none here'})"
    rules += f" and may return the objective ({objective!r})"
    if missing:
        instead = f", but {unknown[0]!r}" if unknown else ""
        return f"confirm returned no {missing[0]!r}{instead}; {rules}"
    if unknown and objective not in answer:
        near = difflib.get_close_matches(str(unknown[0]), [objective], n=1)
        hint = "did you mean the objective?" if near else "other metrics need the objective too"
        return f"confirm returned the unknown {unknown[0]!r}, {hint}; {rules}"
    return None
