"""What holds of ACE2, and of back-off, in any study: what checks cost at most, what they may not
depend on, and that a study goes on after an interruption as if there had been none."""

from __future__ import annotations

import math
import pickle
import random
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.decision import Decision
from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.core.trial_record import Progress
from acetune.policies import ACE2, Backoff, Policy, TruncationSelection
from acetune.policies.stopper import Stopper, StopperTrial
from acetune.study.coordinator import StudyCoordinator
from acetune.study.session import StudyTrial
from acetune.study.store import Store
from acetune.trial.link import Link, Plan, Reply, Report
from acetune.trial.trial import Trial
from properties import examples_or_more

# -- random studies ------------------------------------------------------------------------------


class Step(NamedTuple):
    """An iteration, should it be trained: the objective, the constraint, and what they cost."""

    value: float
    g: float | Estimate | FailedCheck
    step_s: float
    check_s: float


@dataclass(frozen=True)
class Script:
    """What a trial will do."""

    steps: tuple[Step, ...]
    every: int  # reports after so many iterations
    more: int | None  # it has so many steps more than it takes: it ends by itself; None: unknown

    @property
    def total(self) -> int | None:
        return None if self.more is None else len(self.steps) + self.more

    def next_step(self, last: int) -> int:
        return min(last + self.every, len(self.steps))


@dataclass(frozen=True)
class Scripts:
    """A study: its trials, of which four are under way, and whose turn it is."""

    trials: tuple[Script, ...]
    seed: int

    def turns(self) -> random.Random:
        return random.Random(self.seed)


values = st.sampled_from([0.0, 0.25, 0.5, 0.625, 0.75, 1.0, 2.0, 3.0, math.nan])
broken = (math.nan, FailedCheck("raised"))
noisy = (Estimate(0.75, 0.25), Estimate(1.0, 0.125))
measured = st.sampled_from([0.25, 0.5, 1.0, 1.25, 1.5, 1.5, 2.0, 3.0, *noisy, *broken])
whole = st.sampled_from([0.0, 1.0, 1.0, 2.0, 3.0, 5.0, 8.0, 40.0])
decimal = st.sampled_from([0.1, 0.3, 0.7, 1.1, 2.4])


@st.composite
def constant(draw: st.DrawFn, n: int) -> tuple[list[float], list[float]]:
    """Costs of each step, and of a check at each step: the same throughout."""
    seconds = draw(st.sampled_from([whole, decimal]))
    return [draw(seconds)] * n, [draw(seconds)] * n


@st.composite
def fair(draw: st.DrawFn, n: int) -> tuple[list[float], list[float]]:
    """Steps become dearer, if anything; checks cost whatever they do."""
    many = st.lists(whole, min_size=n, max_size=n)
    return sorted(draw(many)), draw(many)


@st.composite
def uneven(draw: st.DrawFn, n: int) -> tuple[list[float], list[float]]:
    """Steps and checks of any cost."""
    many = st.lists(whole, min_size=n, max_size=n)
    return draw(many), draw(many)


Costing = Callable[[int], st.SearchStrategy[tuple[list[float], list[float]]]]


@st.composite
def studies(draw: st.DrawFn, costs: Costing = constant, most: int = 8) -> Scripts:
    trials = []
    for _ in range(draw(st.integers(1, most))):
        n = draw(st.integers(1, 16))
        reported = draw(st.lists(st.tuples(values, measured), min_size=n, max_size=n))
        step_s, check_s = draw(costs(n))
        steps = (Step(*r, a, b) for r, a, b in zip(reported, step_s, check_s, strict=True))
        every = draw(st.sampled_from([1, 1, 1, 2, 3]))
        trials.append(Script(tuple(steps), every, draw(st.sampled_from([0, 0, 0, 3, None]))))
    return Scripts(tuple(trials), draw(st.integers(0, 99)))


@dataclass
class Spent:
    """What a trial has cost."""

    training: list[float] = field(default_factory=list)
    checks: list[float] = field(default_factory=list)


class Told(NamedTuple):
    """A report as it was made, and the answer; a trial's own end has none."""

    trial: int
    step: int
    value: float
    constraints: dict[str, float | Estimate | FailedCheck] | None
    costs: tuple[float | None, float | None]
    due: int | None
    decision: Decision | None


class Played:
    """A study played through."""

    def __init__(
        self,
        study: Scripts,
        policy: Policy,
        *,
        constrained: bool = True,
        unit: float = 1.0,  # of the objective
        g_unit: float = 1.0,  # of the constraint
        rename: Callable[[int], int | str] = int,
        turns: random.Random | None = None,
    ) -> None:
        limits = [Constraint("g", upper=1.0 * g_unit, margin_se=1.0)] if constrained else []
        self.stopper = Stopper(objective="loss", mode="min", constraints=limits, policy=policy)
        self.spent = [Spent() for _ in study.trials]
        self.log: list[Told | tuple[int, int | None]] = []  # reports, and trials that start
        self._constrained, self._unit, self._g_unit = constrained, unit, g_unit
        turns = turns or study.turns()
        waiting, running = list(range(len(study.trials))), dict[int, StopperTrial]()
        while waiting or running:
            while waiting and len(running) < 4:
                index = waiting.pop(0)
                total = study.trials[index].total
                running[index] = self.stopper.start(rename(index), total)
                self.log.append((index, total))
            index = turns.choice(list(running))
            self._go_on(index, study.trials[index], running[index])
            if running[index].state != "running":
                del running[index]

    def _go_on(self, index: int, script: Script, handle: StopperTrial) -> None:
        last = handle.record.progress.last_step
        step, spent = script.next_step(last), self.spent[index]
        value = script.steps[step - 1].value * self._unit
        seconds = [s.step_s for s in script.steps[last:step]]
        due = handle.check_due(step, value)
        constraints, check_s = self._checked(script, step, due)
        costs = (sum(seconds), check_s)
        decision = handle.observe(step, value, constraints, *costs, checked_step=due)
        self.log.append(Told(index, step, value, constraints, costs, due, decision))
        spent.training += seconds
        spent.checks += [] if check_s is None else [check_s]
        if handle.state == "running" and step == len(script.steps):
            due = handle.finish_due()
            constraints, check_s = self._checked(script, step, due)
            handle.finish(constraints, check_s, checked_step=due)
            self.log.append(Told(index, step, value, constraints, (None, check_s), due, None))
            spent.checks += [] if check_s is None else [check_s]

    def _checked(
        self, script: Script, step: int, due: int | None
    ) -> tuple[dict[str, float | Estimate | FailedCheck] | None, float | None]:
        if due is None:
            return None, None
        assert self._constrained
        found, check_s = script.steps[due - 1].g, script.steps[step - 1].check_s
        if isinstance(found, Estimate):
            found = Estimate(found.value * self._g_unit, found.stderr * self._g_unit)
        elif isinstance(found, float):
            found *= self._g_unit
        return {"g": found}, check_s

    @property
    def answers(self) -> list[tuple[object, ...]]:
        """What was asked for and decided, without what has a unit."""
        return [
            told if not isinstance(told, Told) else (told.trial, told.step, told.due, told.decision)
            for told in self.log
        ]

    @property
    def decisions(self) -> list[tuple[object, ...]]:
        decided = [told.decision for told in self.log if isinstance(told, Told)]
        return [(d.action, d.rank, d.of) for d in decided if d is not None]


ace2 = st.builds(
    ACE2,
    truncation=st.sampled_from([0.25, 0.25, 0.0, 0.5]),
    invalid_truncation=st.sampled_from([0.4, 0.4, 0.0, 0.25]),
    head_start=st.sampled_from([0.15, 0.15, 0.0, 0.5, 1.0]),
    spacing=st.sampled_from([1.5, 1.5, 0.0, 0.5, 2.0]),
    patience=st.sampled_from([0.75, 0.75, 0.5, 1.0]),
    remember=st.sampled_from([True, True, False]),
    spare=st.booleans(),
    defer=st.booleans(),
)
backoff = st.builds(
    Backoff,
    truncation=st.sampled_from([0.35, 0.0, 0.5]),
    growth=st.sampled_from([1.2, 1.5, 2.0, 1.0]),
)
lasting = st.builds(  # whose trials go on, so that there is much to check
    ACE2,
    truncation=st.just(0.0),
    invalid_truncation=st.just(0.0),
    head_start=st.sampled_from([0.15, 0.0, 1.0]),
    spacing=st.just(1.0),
    patience=st.just(1.0),
    defer=st.booleans(),
)
both = ace2 | backoff


# -- what checks cost at most --------------------------------------------------------------------


def harmonic(n: int) -> float:
    return sum(1 / k for k in range(1, n + 1))


@examples_or_more(100)
@given(studies(costs=fair), st.just(ACE2()) | lasting)
def test_checks_cost_no_more_than_training_and_two_checks(study: Scripts, policy: ACE2) -> None:
    """Whatever objective and constraint do and checks cost, they cost at most training / spacing
    + the last two checks, of each trial and so of the study, as long as within a trial no step
    is cheaper than one before it.

    Why: each check but those two is followed by training that, at the mean cost of all steps so
    far, costs at least as much, before the next one is made. That mean is at most what this
    training did cost. So each check is paid for by training of its own.

    Where a step falls far below the mean of those before it, this does not hold: see the next
    tests.
    """
    played = Played(study, policy)
    for spent in played.spent:
        assert sum(spent.checks[:-2]) <= sum(spent.training) / policy.spacing
    training = sum(sum(spent.training) for spent in played.spent)
    checks = sum(sum(spent.checks) for spent in played.spent)
    dearest = (max(spent.checks, default=0.0) for spent in played.spent)
    assert checks <= training / policy.spacing + 2 * sum(dearest)


@examples_or_more(100)
@given(studies(costs=constant), lasting, st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0]))
def test_the_bound_where_costs_are_constant(study: Scripts, policy: ACE2, spacing: float) -> None:
    """n >= 2 checks at k after steps at c: (n - 2) k <= (training - 2 c) / spacing, exactly.

    The first check is after a step at least, the last a step after the one before it, and those
    between them lie k spacing / c steps behind another. By-hand cases below reach it.
    """
    policy = ACE2(**{**policy.options(), "spacing": spacing})  # type: ignore[arg-type]
    played = Played(study, policy)
    for script, spent in zip(study.trials, played.spent, strict=True):
        n, step, training = len(spent.checks), script.steps[0], sum(spent.training)
        if n >= 2:
            rounding = 1e-6 * (1 + training)
            assert (n - 2) * step.check_s * spacing <= training - 2 * step.step_s + rounding


@pytest.mark.parametrize(("check_s", "total"), [(1.0, 20), (3.0, 11), (50.0, 2), (1.0, 2)])
def test_the_bound_is_reached(check_s: float, total: int) -> None:
    """Steps of one second; the last step is a step behind the check before it."""
    steps = tuple(Step(0.0, 3.0, 1.0, check_s) for _ in range(total))
    policy = ACE2(truncation=0.0, invalid_truncation=0.0, spacing=1.0)
    (spent,) = Played(Scripts((Script(steps, 1, 0),), 0), policy).spent
    assert sum(spent.checks) == sum(spent.training) - 2 + 2 * check_s


@examples_or_more(60)
@given(studies(costs=uneven), st.just(ACE2()) | lasting)
def test_whatever_the_steps_cost(study: Scripts, policy: ACE2) -> None:
    """Training x (1 + 1/2 + ... + 1/(T - 1)) / spacing + two checks at most.

    The mean cost of a step lags behind steps that become cheaper: check i at step s_i follows on
    s_i - s_(i-1) steps at the mean training / (s_i - 1), and these shares add up to that sum.
    """
    for spent in Played(study, policy).spent:
        training, dearest = sum(spent.training), max(spent.checks, default=0.0)
        shares = harmonic(len(spent.training) - 1)
        assert sum(spent.checks) <= training * shares / policy.spacing + 2 * dearest + 1e-6


def test_a_first_step_that_is_dear_lets_later_ones_be_checked_too_often() -> None:
    """What the bound leaves out: a warm-up of 100 s, and steps after it that cost nothing."""
    steps = tuple(Step(0.0, 3.0, 100.0 if at == 0 else 0.0, 1.0) for at in range(400))
    policy = ACE2(truncation=0.0, invalid_truncation=0.0)
    (spent,) = Played(Scripts((Script(steps, 1, 0),), 0), policy).spent
    assert 100 + 2 < sum(spent.checks) <= 100 * harmonic(399) + 2
    assert sum(spent.checks) < 300


# -- what decisions may not depend on ------------------------------------------------------------


@examples_or_more(40)
@given(studies(), both, st.integers(-20, 20), st.integers(-20, 20))
def test_units_do_not_matter(study: Scripts, policy: Policy, power: int, g_power: int) -> None:
    """Of the objective, and of the constraint with its limit."""
    played = Played(study, policy)
    scaled = Played(study, policy, unit=2.0**power, g_unit=2.0**g_power)
    assert scaled.answers == played.answers


@examples_or_more(40)
@given(studies(), both, st.integers(0, 99))
def test_names_do_not_matter(study: Scripts, policy: Policy, seed: int) -> None:
    names = [f"{random.Random(seed + index).random()} {index}" for index in range(8)]
    assert Played(study, policy, rename=names.__getitem__).answers == Played(study, policy).answers


@examples_or_more(40)
@given(studies(), both)
def test_the_same_reports_get_the_same_decisions(study: Scripts, policy: Policy) -> None:
    """In another process too, and however often somebody asks in between."""
    played = Played(study, policy)
    again = Stopper(
        objective="loss",
        mode="min",
        constraints=played.stopper.goals.constraints,
        policy=pickle.loads(pickle.dumps(policy)),
    )
    handles = {}
    for told in played.log:
        if not isinstance(told, Told):
            index, total = told
            handles[index] = again.start(index, total)
            continue
        handle, (step_s, check_s) = handles[told.trial], told.costs
        if told.decision is None:
            assert handle.finish_due() == handle.finish_due() == told.due
            handle.finish(told.constraints, check_s, checked_step=told.due)
            continue
        assert handle.check_due(told.step, 0.0) == handle.check_due(told.step, 0.0)
        assert handle.check_due(told.step, told.value) == told.due
        decision = handle.observe(
            told.step, told.value, told.constraints, step_s, check_s, checked_step=told.due
        )
        assert decision == told.decision
    assert Played(study, policy).answers == played.answers


@examples_or_more(60)
@given(studies(), ace2, st.sampled_from([0.25, 0.25, 0.0, 0.5, 1.0]))
def test_without_constraints_it_is_truncation_selection(
    study: Scripts, policy: ACE2, truncation: float
) -> None:
    """At every step, whatever the other options: action, rank and number compared."""
    policy = ACE2(**{**policy.options(), "truncation": truncation})  # type: ignore[arg-type]
    ours = Played(study, policy, constrained=False)
    theirs = Played(study, TruncationSelection(truncation=truncation), constrained=False)
    assert ours.decisions == theirs.decisions
    assert not any(spent.checks for spent in ours.spent)


# -- after an interruption -----------------------------------------------------------------------


class Direct(Link):
    """A link without a process between: what a worker says, the coordinator hears at once."""

    def __init__(
        self,
        coordinator: StudyCoordinator,
        trial: StudyTrial,
        chosen: tuple[int | None, float | None] | None,
    ) -> None:
        self.coordinator, self.trial, self.chosen = coordinator, trial, chosen
        self.reports: list[Report | None] = []

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        return self.coordinator.begin(self.trial, total_steps, startup_s, self.chosen)

    def fresh_gate(self, report: Report) -> float:
        return self.coordinator.gate

    def report(self, report: Report) -> Reply:
        self.reports.append(report)
        return self.coordinator.report(self.trial, report)

    def finish(self, report: Report | None) -> None:
        self.reports.append(report)
        self.coordinator.finish(self.trial, report)

    def declare(self, total_steps: int) -> None: ...
    def note_hardware(self, description: str) -> None: ...
    def checking(self, constraint: str | None) -> None: ...
    def keep_model(self, step: int, model: object) -> None: ...
    def keep_checkpoint(self, step: int, source: object) -> None: ...


class Live:
    """A study with a file, and workers that keep a progress of their own."""

    def __init__(self, study: Scripts, policy: Policy, path: Path) -> None:
        self.study, self.policy, self.path = study, policy, path
        about = dict.fromkeys(("constraints", "space", "settings", "versions"), "[]")
        about |= {"objective": "", "policy": "", "code_hash": ""}
        Store.create(path, {**about, "created": 0}).close()
        self.workers: dict[int, tuple[Trial, Direct]] = {}
        self.open()

    def open(self) -> None:
        limits = [Constraint("g", upper=1.0, margin_se=1.0)]
        stopper = Stopper(objective="loss", mode="min", constraints=limits, policy=self.policy)
        self.store = Store.open(self.path)
        self.coordinator = StudyCoordinator(self.store, stopper)

    def interrupt(self) -> None:
        """The driver dies with its workers; another one takes the file, and trials go on."""
        before = {number: link.trial for number, (_, link) in self.workers.items()}
        self.store.close()
        self.open()
        under_way = self.coordinator.load()
        assert sorted(under_way) == sorted(self.workers)
        for number in under_way:
            old, new = (t.handle for t in (before[number], self.coordinator.trials[number]))
            assert old is not None
            assert new is not None
            assert new.record.progress == old.record.progress
            assert new.record.verdicts == old.record.verdicts
            progress, chosen = new.record.progress, (new.interval, new.record.cost_ratio)
            with self.store.transaction():
                trial = self.coordinator.add_attempt(number, progress.last_step)
            self.workers[number] = self.worker(trial, progress.total_steps, chosen)

    def worker(
        self,
        trial: StudyTrial,
        total: int | None,
        chosen: tuple[int | None, float | None] | None = None,
    ) -> tuple[Trial, Direct]:
        link = Direct(self.coordinator, trial, chosen)
        worker = Trial(
            link,
            self.coordinator.goals,
            self.policy,
            number=trial.number,
            attempt=trial.attempt,
            params={},
            folder=self.path.parent,
            progress=self.coordinator.progress(trial),
            clock=lambda: 0.0,
        )
        worker.declare(total)
        return worker, link

    def play(self, turns: random.Random, until: int | None = None) -> list[object]:
        """So many reports, or all; returns what was checked and decided."""
        log: list[object] = []
        while until is None or len(log) < until:
            started = len(self.coordinator.trials)
            while len(self.workers) < 4 and started < len(self.study.trials):
                with self.store.transaction():
                    trial = self.coordinator.add_trial({})
                    script = self.study.trials[trial.number - 1]
                    self.workers[trial.number] = self.worker(trial, script.total)
                started += 1
            if not self.workers:
                break
            with self.store.transaction():
                log.append(self.go_on(turns.choice(sorted(self.workers))))
        return log

    def go_on(self, number: int) -> object:
        (worker, link), script = self.workers[number], self.study.trials[number - 1]
        assert link.trial.handle is not None
        record = link.trial.handle.record
        assert worker._progress == record.progress
        step = script.next_step(worker.last_step)
        at = script.steps[step - 1]
        decision = worker.report(
            at.value,
            step=step,
            constraints={"g": at.g},
            primary_cost_s=sum(s.step_s for s in script.steps[worker.last_step : step]),
            constraint_cost_s=at.check_s,
        )
        assert worker._progress == record.progress
        if not worker.should_stop and step == len(script.steps):
            worker.close()
        if record.state != "running":
            del self.workers[number]
        told = [(r.step, r.checked_step) for r in link.reports[-2:] if r is not None]
        seen = (decision.action, decision.stratum, decision.rank, decision.of)
        return number, step, told[-1:], seen, record.state, self.due(record.progress, step)

    def due(self, progress: Progress, step: int) -> list[int | None]:
        """What would be due next, gate aside."""
        steps = range(step + 1, step + 40)
        return [self.policy.due(progress, ahead, 0.0) for ahead in steps]


@examples_or_more(40)
@given(studies(most=6), both, st.integers(0, 60))
def test_an_interrupted_study_goes_on_as_if_it_had_not_been(
    study: Scripts, policy: Policy, reports: int
) -> None:
    """The file holds what is needed to say what is due; worker and driver have it alike.

    Each trial costs the same throughout: what a new attempt takes over are means.
    """
    with tempfile.TemporaryDirectory() as folder:
        unbroken = Live(study, policy, Path(folder) / "whole.db")
        turns = study.turns()
        expected = unbroken.play(turns)
        interrupted = Live(study, policy, Path(folder) / "broken.db")
        turns = study.turns()
        with closing(unbroken.store):
            found = interrupted.play(turns, until=reports)
            interrupted.interrupt()
            found += interrupted.play(turns)
            interrupted.store.close()
    assert found == expected
    one, two = (live.coordinator.stopper.history for live in (unbroken, interrupted))
    assert (one.gate, one.strata, one.checks) == (two.gate, two.strata, two.checks)
    assert asdict(one.costs) == asdict(two.costs)
