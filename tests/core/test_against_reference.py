"""Random studies, once through the package and once through the plain rules: no difference.

``ACETUNE_HYPOTHESIS_EXAMPLES=5000`` runs that many examples a test, drawn anew each time.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.errors import ReportError
from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.core.outcome import outcome
from acetune.core.trial_record import Checkpoint
from acetune.policies import ACE, ASHA, NoStopping, Policy
from acetune.policies.stopper import RepeatedReportWarning, Stopper, StopperTrial
from properties import TIMEOUT_S, examples_or_more

from .reference import (
    AceRule,
    Answer,
    AshaRule,
    Check,
    Limit,
    NoRule,
    OtherRule,
    ReferenceStudy,
    RefusedError,
    Result,
    Rule,
)

pytestmark = pytest.mark.timeout(TIMEOUT_S)


# -- what can happen in a study ------------------------------------------------------------------
# A study has a few slots, as a tuner has workers. A slot whose trial has ended starts the next one.


class Checked(NamedTuple):
    """What a check gives, should one be due: all constraints measured, and its cost."""

    measured: tuple[float | Estimate | FailedCheck, ...]
    cost: float | None
    cost_by_name: tuple[bool, ...] | None  # which constraints were timed; None: one number for all
    snapshot_cost: float
    leave_out: bool  # the caller does not check although it is due


class Report(NamedTuple):
    slot: int
    skip: int
    value: float
    snapshot: bool
    primary_cost: float | None
    checked: Checked


class Ask(NamedTuple):
    """Ask now; the slot's next report comes with the answer, whatever happens in between."""

    slot: int
    skip: int
    value: float
    snapshot: bool


class Repeat(NamedTuple):
    slot: int
    back: int
    value: float | None  # None: the same again
    measured: Literal["none", "same"] | tuple[float | Estimate | FailedCheck, ...]


class Retry(NamedTuple):
    slot: int
    resumed_from: int


class Declare(NamedTuple):
    slot: int
    more: int


class End(NamedTuple):
    slot: int
    how: Literal["finished", "failed", "interrupted"]
    snapshot: bool
    checked: Checked


Event = Report | Ask | Repeat | Retry | Declare | End


@dataclass(frozen=True)
class Study:
    mode: Literal["min", "max"]
    limits: tuple[Limit, ...]
    rule: Rule
    confirm_top: int
    totals: tuple[int | None, ...]  # of the trials in turn
    events: tuple[Event, ...]


SLOTS = 3
NAMES = ("g0", "g1", "g2")


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of several, each as often as its weight says (``one_of`` drops duplicates)."""
    return st.sampled_from([choice for weight, choice in choices for _ in range(weight)]).flatmap(
        lambda chosen: chosen
    )


few = st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0])
not_finite = st.sampled_from([math.nan, math.inf, -math.inf])
losses = weighted((6, few), (3, st.floats(-2, 2)), (1, not_finite))
numbers = weighted((3, few), (1, st.floats(-1, 2)))
estimates = st.builds(Estimate, numbers, st.sampled_from([0.125, 0.125, 0.3, 0.0, math.nan, -1.0]))
measurements: st.SearchStrategy[float | Estimate | FailedCheck] = weighted(
    (7, numbers), (3, estimates), (1, not_finite), (1, st.just(FailedCheck("it raised")))
)
all_measured = st.tuples(measurements, measurements, measurements)
slots = st.integers(0, SLOTS - 1)
skips = st.sampled_from([0, 0, 0, 0, 1, 2])
seldom = st.sampled_from([False, False, False, False, False, True])
seconds = st.sampled_from([None, 0.0, 0.125, 1.0, 1.0, 3.0])


checks_of_all = st.builds(
    Checked,
    all_measured,
    seconds,
    st.none() | st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.sampled_from([0.0, 0.0, 0.5, 2.0]),
    seldom,
)


def events(checks: st.SearchStrategy[Checked]) -> st.SearchStrategy[Event]:
    snapshot = st.sampled_from([True, True, False])
    repeated = st.sampled_from(["none", "same"]) | checks.map(lambda check: check.measured)
    ends = st.sampled_from(["finished", "finished", "failed", "interrupted"])
    return weighted(
        (14, st.builds(Report, slots, skips, losses, snapshot, seconds, checks)),
        (2, st.builds(Ask, slots, skips, losses, snapshot)),
        (1, st.builds(Repeat, slots, st.integers(0, 5), st.none() | losses, repeated)),
        (1, st.builds(Retry, slots, st.integers(0, 4))),
        (1, st.builds(Declare, slots, st.integers(0, 3))),
        (2, st.builds(End, slots, ends, snapshot, checks)),
    )


def limit(name: str) -> st.SearchStrategy[Limit]:
    tau = st.sampled_from([0.0, 0.25, 0.5, -0.5])
    margins, scales = st.sampled_from([0.0, 0.0, 1.0, 1.645]), st.sampled_from([None, None, 2.0])
    return st.builds(
        lambda tau, is_upper, margin, scale: Limit(
            name, tau if is_upper else None, None if is_upper else tau, margin, scale
        ),
        tau,
        st.booleans(),
        margins,
        scales,
    )


@st.composite
def studies(
    draw: st.DrawFn, rules: st.SearchStrategy[Rule], lengths: tuple[int | None, ...]
) -> Study:
    palette = draw(st.lists(checks_of_all, min_size=3, max_size=8))
    event = events(st.sampled_from(palette))
    chunks = st.lists(st.lists(event, min_size=5, max_size=25), min_size=1, max_size=12)
    return Study(
        mode=draw(st.sampled_from(["min", "max"])),
        limits=tuple(
            draw(limit(name)) for name in NAMES[: draw(st.sampled_from([1, 1, 1, 2, 2, 3, 3, 0]))]
        ),
        rule=draw(rules),
        confirm_top=draw(st.sampled_from([1, 1, 2, 3])),
        totals=tuple(draw(st.lists(st.sampled_from(lengths), min_size=1, max_size=3))),
        events=tuple(chain.from_iterable(draw(chunks))),
    )


ace_rules = st.builds(
    AceRule,
    truncation=st.sampled_from([0.25, 0.25, 0.0, 0.03, 0.1, 0.5, 0.75, 1.0]),
    interval=st.sampled_from(["adaptive", "adaptive", 1, "end"]),
    gate=st.booleans(),
    stopping=st.sampled_from(["stratum", "stratum", "first-violation"]),
    min_steps=st.sampled_from([0, 0, 0, 2, 3]),
)
asha_rules = st.builds(
    AshaRule,
    reduction_factor=st.sampled_from([2, 3, 4]),
    min_steps=st.sampled_from([1, 1, 2]),
    constraints=st.sampled_from(["callback", "callback", "after"]),
)
no_rules = st.builds(NoRule, constraints=st.sampled_from(["callback", "callback", "after"]))


def policy_of(rule: Rule) -> Policy:
    if isinstance(rule, OtherRule):
        return rule.policy()
    kinds: dict[type, Callable[..., Policy]] = {AceRule: ACE, AshaRule: ASHA, NoRule: NoStopping}
    return kinds[type(rule)](**asdict(rule))


def plain(measured: float | Estimate | FailedCheck) -> Result:
    """A measurement as the reference writes it."""
    if isinstance(measured, FailedCheck):
        return None
    return (measured.value, measured.stderr) if isinstance(measured, Estimate) else measured


# -- both sides at once --------------------------------------------------------------------------


@dataclass
class Slot:
    handle: StopperTrial
    name: str
    asked: Ask | None = None
    due: int | None = None


class Pair:
    """Feeds the same events to both implementations and compares every answer."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.stopper = Stopper(
            objective="loss",
            mode=study.mode,
            constraints=[Constraint(**asdict(limit)) for limit in study.limits],
            policy=policy_of(study.rule),
            confirm_top=study.confirm_top,
        )
        self.reference = ReferenceStudy(study.mode, study.limits, study.rule, study.confirm_top)
        self.slots: dict[int, Slot] = {}
        self.started = 0

    def play(self) -> None:
        for event in self.study.events:
            slot = self.slot(event.slot)
            match event:
                case Report():
                    self.report(slot, event)
                case Ask():
                    self.ask(slot, event)
                case Repeat():
                    self.repeat(slot, event)
                case Retry():
                    self.retry(slot, event)
                case Declare():
                    self.declare(slot, event)
                case End():
                    self.end(slot, event)
            self.compare(slot.name)
        for name in self.reference.attempts:
            self.compare(name)

    # -- one event each --------------------------------------------------------------------------

    def slot(self, index: int) -> Slot:
        slot = self.slots.get(index)
        if slot is None or slot.handle.state in ("finished", "stopped"):
            total = self.study.totals[self.started % len(self.study.totals)]
            name = f"trial-{self.started}"
            self.started += 1
            slot = self.slots[index] = Slot(self.start(name, total), name)
        elif slot.handle.state != "running":
            self.retry(slot, Retry(index, 0))
        return slot

    def start(self, name: str, total: int | None, resumed_from: int = 0) -> StopperTrial:
        close_call = self.reference.close_call(total)
        expected = self.reference.start(name, total, resumed_from)
        handle = self.stopper.start(name, total, resumed_from=resumed_from)
        if close_call:  # rounding decides
            expected.beta, expected.along = handle.interval, handle.interval == 1
        assert handle.interval == expected.beta
        assert handle.record.attempt == expected.number
        assert (handle.record.cost_ratio is None) == (expected.ratio is None)
        if expected.ratio is not None:
            assert handle.record.cost_ratio == pytest.approx(float(expected.ratio), rel=1e-12)
        return handle

    def ask(self, slot: Slot, ask: Ask) -> None:
        step = self.next_step(slot, ask.skip)
        if step is None:
            return
        for snapshot in (not ask.snapshot, ask.snapshot):
            due = self.reference.check_due(slot.name, step, ask.value, snapshot)
            assert slot.handle.check_due(step, ask.value, snapshot=snapshot) == due
        slot.asked, slot.due = ask, due

    def report(self, slot: Slot, report: Report) -> None:
        if slot.asked is None:
            self.ask(
                slot, Ask(slot=0, skip=report.skip, value=report.value, snapshot=report.snapshot)
            )
        ask, due = slot.asked, slot.due
        if ask is None:  # its last step was declared after it was reached
            return
        slot.asked = slot.due = None
        step = self.next_step(slot, ask.skip)
        if step is None:
            return
        measured = None
        check = report.checked
        if due is not None and not check.leave_out:
            measured = dict(zip(self.names, check.measured, strict=False))
        cost = self.cost(check) if measured is not None else None
        snapshot_cost = check.snapshot_cost if measured is not None else 0.0
        expected = self.reference.observe(
            slot.name,
            step,
            ask.value,
            self.plain(measured),
            report.primary_cost,
            cost,
            snapshot_cost,
            due,
        )
        decision = slot.handle.observe(
            step,
            ask.value,
            measured,
            report.primary_cost,
            cost,
            checked_step=due,
            snapshot_cost_s=snapshot_cost,
        )
        assert answer(decision) == expected
        assert decision.reason

    def repeat(self, slot: Slot, repeat: Repeat) -> None:
        recorded = self.reference.own(slot.name)
        if not recorded:
            return
        last = recorded[-1].step
        step = max(1, last - repeat.back)
        value = repeat.value
        report = next((r for r in recorded if r.step == step), None)
        if value is None:
            value = 0.0 if report is None else self.in_units(report.loss)
        measured: dict[str, float | Estimate | FailedCheck] | None = None
        if repeat.measured == "same":
            if report is not None and report.measured is not None:
                measured = {name: again(result) for name, result in report.measured.items()}
        elif repeat.measured != "none" and self.names:
            measured = dict(zip(self.names, repeat.measured, strict=False))
        if report is None:
            with pytest.raises(RefusedError):
                self.reference.observe(slot.name, step, value)
            with pytest.raises(ReportError, match=str(step)):
                slot.handle.observe(step, value)
            return
        expected = self.reference.observe(slot.name, step, value, self.plain(measured))
        assert slot.handle.check_due(step, value) is None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            decision = slot.handle.observe(
                step, value, measured, 100.0, 100.0 if measured else None
            )
        assert answer(decision) == expected._replace(differs=False)
        assert [w.category for w in caught] == [RepeatedReportWarning] * expected.differs

    def retry(self, slot: Slot, retry: Retry) -> None:
        slot.asked = slot.due = None
        total = self.reference.attempts[slot.name].total
        slot.handle = self.start(slot.name, total, retry.resumed_from)

    def declare(self, slot: Slot, declare: Declare) -> None:
        known = self.reference.attempts[slot.name].total
        total = max(1, self.last_step(slot) + declare.more)
        if known is not None and known != total:
            with pytest.raises(ReportError, match=str(total)):
                slot.handle.declare(total)
            return
        slot.asked = slot.due = None
        self.reference.declare(slot.name, total)
        slot.handle.declare(total)

    def end(self, slot: Slot, end: End) -> None:
        slot.asked = slot.due = None
        if end.how != "finished":
            self.reference.end(slot.name, end.how)
            (slot.handle.fail if end.how == "failed" else slot.handle.interrupt)("on purpose")
            return
        due = self.reference.finish_due(slot.name, end.snapshot)
        assert slot.handle.finish_due(snapshot=end.snapshot) == due
        if due is None or end.checked.leave_out:
            self.reference.finish(slot.name)
            slot.handle.finish()
            return
        measured = dict(zip(self.names, end.checked.measured, strict=False))
        cost, snapshot_cost = self.cost(end.checked), end.checked.snapshot_cost
        self.reference.finish(slot.name, self.plain(measured), cost, snapshot_cost, due)
        slot.handle.finish(measured, cost, checked_step=due, snapshot_cost_s=snapshot_cost)

    # -- comparing -------------------------------------------------------------------------------

    def compare(self, name: str) -> None:
        history, reference = self.stopper.history, self.reference
        record = history.trials[name]
        assert record.state == reference.attempts[name].state
        assert tuple(outcome(record, history)) == tuple(reference.told(name))
        assert facts(self.stopper.history.best) == facts(reference.best())
        assert facts(history.nearest) == facts(reference.nearest())
        assert history.gate == reference.f_star()
        for slot in self.slots.values():
            if slot.name == name:
                for snapshot in (True, False):
                    due = reference.finish_due(name, snapshot)
                    assert slot.handle.finish_due(snapshot=snapshot) == due

    # -- small things ----------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [limit.name for limit in self.study.limits]

    def last_step(self, slot: Slot) -> int:
        return max((r.step for r in self.reference.own(slot.name)), default=0)

    def next_step(self, slot: Slot, skip: int) -> int | None:
        last, total = self.last_step(slot), self.reference.attempts[slot.name].total
        if total is None:
            return last + 1 + skip
        return min(last + 1 + skip, total) if last < total else None

    def in_units(self, loss: float) -> float:
        return -loss if self.study.mode == "max" else loss

    def plain(
        self, measured: Mapping[str, float | Estimate | FailedCheck] | None
    ) -> dict[str, Result] | None:
        return None if measured is None else {name: plain(m) for name, m in measured.items()}

    def cost(self, checked: Checked) -> float | dict[str, float] | None:
        if checked.cost is None or checked.cost_by_name is None:
            return checked.cost
        chosen = zip(self.names, checked.cost_by_name, strict=False)
        return {name: checked.cost * (index + 1) for index, (name, yes) in enumerate(chosen) if yes}


def again(result: Result) -> float | Estimate | FailedCheck:
    if result is None:
        return FailedCheck("another text")
    return Estimate(*result) if isinstance(result, tuple) else result


def answer(decision: object) -> Answer:
    return Answer(*(getattr(decision, name) for name in ("stop", "stratum", "rank", "of")))


def facts(found: Checkpoint | Check | None) -> tuple[object, ...] | None:
    if found is None:
        return None
    return found.trial, found.attempt, found.step, found.loss, found.violation


# -- the tests -----------------------------------------------------------------------------------


@examples_or_more(400)
@given(studies(ace_rules, lengths=(2, 2, 3, 3, 4, 6, 1, None)))
def test_ace(study: Study) -> None:
    Pair(study).play()


@examples_or_more(120)
@given(studies(asha_rules, lengths=(6, 10, 20, None, 1)))
def test_asha(study: Study) -> None:
    Pair(study).play()


@examples_or_more(60)
@given(studies(no_rules, lengths=(2, 3, 4, 1, None)))
def test_no_stopping(study: Study) -> None:
    Pair(study).play()
