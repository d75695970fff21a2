"""The simulator written a second time: slow, plain, and apart from the package.

What is to come is a flat list in which the earliest is looked for anew each time. Nothing is kept
of the study but what was reported and when; who is checked and who is stopped says a
:class:`Judge`, which is either the rules as ``core.reference`` has them, or the package's own
policy behind ``Stopper``, used as its manual says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from acetune.core.outcome import outcome
from acetune.policies import Policy
from acetune.policies.stopper import Stopper, StopperTrial
from core.reference import Limit, ReferenceStudy, Rule

from .watching import Event


class Row(NamedTuple):
    """One recorded step."""

    value: float
    measured: Mapping[str, float]  # NaN where it was not
    cost_s: float


class Recorded(NamedTuple):
    """One recorded configuration; ``total`` is None where T is not known."""

    rows: Sequence[Row]
    total: int | None


class Answer(NamedTuple):
    """What became of a report."""

    stratum: str
    rank: int | None
    of: int | None
    state: str


class Told(NamedTuple):
    """What the picker hears of a trial."""

    trial: int
    loss: float | None
    violation: float
    failed: bool


class CloseCall(Exception):  # noqa: N818 - no error, but a case in which rounding decides
    """Theorem 1 is decided by rounding."""


class Judge(Protocol):
    """Who decides. Trials are known by their numbers, steps count from 1."""

    def start(self, trial: int, total: int | None) -> None: ...

    def interval(self, trial: int) -> int | None: ...

    def order(self, trial: int) -> Sequence[str] | None: ...

    def due(self, trial: int, step: int, value: float) -> int | None: ...

    def due_at_end(self, trial: int) -> int | None: ...

    def report(
        self,
        trial: int,
        step: int,
        value: float,
        checked: tuple[int, Mapping[str, float], Mapping[str, float]] | None,
        cost_s: float,
    ) -> Answer: ...

    def finish(
        self, trial: int, checked: tuple[int, Mapping[str, float], Mapping[str, float]] | None
    ) -> None: ...

    def interrupt(self, trial: int) -> None: ...

    def check_later(
        self, trial: int, step: int, measured: Mapping[str, float], costs: Mapping[str, float]
    ) -> None: ...

    def best(self) -> tuple[int, int, float] | None: ...

    def told(self, trial: int) -> Told: ...


class ByTheRules:
    """Judges as ``core.reference`` does."""

    def __init__(self, mode: str, limits: Sequence[Limit], rule: Rule) -> None:
        self.study = ReferenceStudy(mode, tuple(limits), rule)

    def start(self, trial: int, total: int | None) -> None:
        if self.study.close_call(total):
            raise CloseCall
        self.study.start(str(trial), total)

    def interval(self, trial: int) -> int | None:
        return self.study.attempts[str(trial)].beta

    def order(self, trial: int) -> None:
        """None of these rules leaves anything out."""

    def due(self, trial: int, step: int, value: float) -> int | None:
        return self.study.check_due(str(trial), step, value)

    def due_at_end(self, trial: int) -> int | None:
        return self.study.finish_due(str(trial))

    def report(self, trial: int, step: int, value: float, checked: Any, cost_s: float) -> Answer:
        checked_step, measured, costs = checked or (None, None, None)
        answer = self.study.observe(
            str(trial), step, value, measured, cost_s, costs, checked_step=checked_step
        )
        state = self.study.attempts[str(trial)].state
        return Answer(answer.stratum, answer.rank, answer.of, state)

    def finish(self, trial: int, checked: Any) -> None:
        checked_step, measured, costs = checked or (None, None, None)
        self.study.finish(str(trial), measured, costs, checked_step=checked_step)

    def interrupt(self, trial: int) -> None:
        self.study.end(str(trial), "interrupted")

    def check_later(
        self, trial: int, step: int, measured: Mapping[str, float], costs: Mapping[str, float]
    ) -> None:
        loss = next(r.loss for r in self.study.own(str(trial)) if r.step == step)
        self.study._check(str(trial), step, loss, measured)

    def best(self) -> tuple[int, int, float] | None:
        found = self.study.best()
        if found is None:
            return None
        value = -found.loss if self.study.mode == "max" else found.loss
        return int(found.trial), found.step, value

    def told(self, trial: int) -> Told:
        return Told(trial, *self.study.told(str(trial)))


class ByThePolicy:
    """Judges by the policy itself, asked and told as anybody's own loop would do it."""

    def __init__(self, mode: Any, constraints: Sequence[Any], policy: Policy) -> None:
        self.stopper = Stopper(objective="value", mode=mode, constraints=constraints, policy=policy)
        self.handles: dict[int, StopperTrial] = {}
        self.orders: dict[int, Sequence[str] | None] = {}

    def start(self, trial: int, total: int | None) -> None:
        self.orders[trial] = self.stopper.order
        self.handles[trial] = self.stopper.start(trial, total)

    def order(self, trial: int) -> Sequence[str] | None:
        return self.orders[trial]

    def interval(self, trial: int) -> int | None:
        return self.handles[trial].interval

    def due(self, trial: int, step: int, value: float) -> int | None:
        return self.handles[trial].check_due(step, value)

    def due_at_end(self, trial: int) -> int | None:
        return self.handles[trial].finish_due()

    def report(self, trial: int, step: int, value: float, checked: Any, cost_s: float) -> Answer:
        checked_step, measured, costs = checked or (None, None, None)
        handle = self.handles[trial]
        decision = handle.observe(step, value, measured, cost_s, costs, checked_step=checked_step)
        return Answer(decision.stratum, decision.rank, decision.of, handle.state)

    def finish(self, trial: int, checked: Any) -> None:
        checked_step, measured, costs = checked or (None, None, None)
        self.handles[trial].finish(measured, costs, checked_step=checked_step)

    def interrupt(self, trial: int) -> None:
        self.handles[trial].interrupt("the budget is spent")

    def check_later(
        self, trial: int, step: int, measured: Mapping[str, float], costs: Mapping[str, float]
    ) -> None:
        self.handles[trial].add_check(measured, costs, step)

    def best(self) -> tuple[int, int, float] | None:
        found = self.stopper.best
        return None if found is None else (int(found.trial), found.step, found.value)

    def told(self, trial: int) -> Told:
        history = self.stopper.history
        return Told(trial, *outcome(history.trials[trial], history))


@dataclass
class Coming:
    """Something that will happen."""

    time_s: float
    place: int  # in the order of scheduling
    trial: int
    what: str  # step, check, end, check at end
    step: int  # trained, or checked
    reporting: int = 0  # the step that a check belongs to


@dataclass
class SlowSimulation:
    """A study on a simulated clock."""

    recorded: Sequence[Recorded]
    judge: Judge
    mode: str
    order: Sequence[int]  # of the configurations
    check_cost_s: Mapping[str, float]
    limits: Sequence[Limit] = ()
    workers: int = 1
    budget_s: float = math.inf
    max_trials: int | None = None
    startup_s: float = 0.0
    after: bool = False  # checks after the run

    now: float = 0.0
    configs: list[int] = field(default_factory=list)
    coming: list[Coming] = field(default_factory=list)
    scheduled: int = 0
    reported: dict[int, int] = field(default_factory=dict)  # how many steps of each trial

    events: list[Event] = field(default_factory=list)
    incumbents: list[tuple[float, float, int, int]] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    primary_s: list[float] = field(default_factory=list)
    check_s: list[float] = field(default_factory=list)
    unmeasured: int = 0

    def run(self) -> None:
        for _ in range(self.workers):
            self.begin_next()
        while self.coming:
            first = self.coming[0]
            for other in self.coming[1:]:
                if (other.time_s, other.place) < (first.time_s, first.place):
                    first = other
            if first.time_s > self.budget_s:
                self.now = self.budget_s
                break
            self.coming.remove(first)
            self.now = first.time_s
            self.happen(first)
        for interrupted in self.coming:
            self.judge.interrupt(interrupted.trial)
        if self.after and self.check_cost_s:
            self.check_after_the_run()

    def begin_next(self) -> None:
        begun = len(self.configs)
        if begun == len(self.order) or begun == self.max_trials:
            return
        self.configs.append(self.order[begun])
        trial = begun + 1
        self.reported[trial] = 0
        self.judge.start(trial, self.curve(trial).total)
        self.schedule(self.now + self.startup_s, self.row(trial, 1).cost_s, trial, "step", 1)

    def schedule(
        self, since: float, wait_s: float, trial: int, what: str, step: int, reporting: int = 0
    ) -> None:
        self.scheduled += 1
        self.coming.append(Coming(since + wait_s, self.scheduled, trial, what, step, reporting))

    # -- what happens ----------------------------------------------------------------------------

    def happen(self, it: Coming) -> None:
        trial, step = it.trial, it.step
        if it.what == "step":
            due = self.judge.due(trial, step, self.row(trial, step).value)
            if due is not None:
                self.note(trial, f"step {step}", f"check {due}")
                wait_s = self.wait_for_check(trial, due)
                self.schedule(self.now, wait_s, trial, "check", due, reporting=step)
            else:
                self.report(trial, step, None, f"step {step}")
        elif it.what == "check":
            self.report(trial, it.reporting, step, f"check {step}")
        elif it.what == "end":
            due = self.judge.due_at_end(trial)
            if due is not None:
                self.note(trial, "end", f"check {due}")
                self.schedule(self.now, self.wait_for_check(trial, due), trial, "check at end", due)
            else:
                self.judge.finish(trial, None)
                self.note(trial, "end", "finished")
                self.ended(trial)
        else:
            self.judge.finish(trial, self.checked(trial, step))
            self.note(trial, f"check {step}", "finished")
            self.look_at_the_best()
            self.ended(trial)

    def report(self, trial: int, step: int, checked_step: int | None, what: str) -> None:
        row = self.row(trial, step)
        checked = None if checked_step is None else self.checked(trial, checked_step)
        answer = self.judge.report(trial, step, row.value, checked, row.cost_s)
        self.reported[trial] = step
        self.primary_s.append(row.cost_s)
        rank = "" if answer.rank is None else f"{answer.rank}/{answer.of}"
        state = "" if answer.state == "running" else answer.state
        self.note(trial, what, " ".join(filter(None, (answer.stratum, rank, state))))
        self.look_at_the_best()
        if state:
            self.ended(trial)
        elif step < len(self.curve(trial).rows):
            cost_s = self.row(trial, step + 1).cost_s
            self.schedule(self.now, cost_s, trial, "step", step + 1)
        else:
            self.schedule(self.now, 0.0, trial, "end", step)

    def ended(self, trial: int) -> None:
        self.told.append(self.judge.told(trial))
        self.begin_next()

    def check_after_the_run(self) -> None:
        candidates = []
        for trial, steps in self.reported.items():
            values = [self.row(trial, step).value for step in range(1, steps + 1)]
            if values:
                best = max(values) if self.mode == "max" else min(values)
                rank = -best if self.mode == "max" else best
                candidates.append((rank, trial, values.index(best) + 1))
        for _, trial, step in sorted(candidates):
            _, measured, costs = self.checked(trial, step)
            before = self.judge.best()
            self.judge.check_later(trial, step, measured, costs)
            self.now += self.one_check_s / self.workers
            valid = self.judge.best() != before
            self.note(trial, f"after {step}", "valid" if valid else "invalid")
            self.look_at_the_best()
            if valid:
                break

    # -- looking things up -----------------------------------------------------------------------

    @property
    def one_check_s(self) -> float:
        return math.fsum(self.check_cost_s.values())

    def curve(self, trial: int) -> Recorded:
        return self.recorded[self.configs[trial - 1]]

    def row(self, trial: int, step: int) -> Row:
        return self.curve(trial).rows[step - 1]

    def checked(
        self, trial: int, step: int
    ) -> tuple[int, Mapping[str, float], Mapping[str, float]]:
        measured = self.measured(trial, step)
        self.unmeasured += any(math.isnan(value) for value in measured.values())
        costs = {name: self.check_cost_s[name] for name in measured}
        self.check_s.append(math.fsum(costs.values()))
        return step, measured, costs

    def measured(self, trial: int, step: int) -> dict[str, float]:
        """All constraints, or with an order those up to the first that does not hold."""
        row, order = self.row(trial, step).measured, self.judge.order(trial)
        if order is None:
            return {name: row[name] for name in self.check_cost_s}
        found = {}
        for name in order:
            found[name] = row[name]
            if not self.holds(name, row[name]):
                break
        return found

    def holds(self, name: str, value: float) -> bool:
        (limit,) = (limit for limit in self.limits if limit.name == name)
        return not math.isnan(value) and limit.beyond(value) <= 0

    def wait_for_check(self, trial: int, step: int) -> float:
        return math.fsum(self.check_cost_s[name] for name in self.measured(trial, step))

    # -- writing things down ---------------------------------------------------------------------

    def note(self, trial: int, what: str, came: str) -> None:
        self.events.append(Event(self.now, trial, what, came))

    def look_at_the_best(self) -> None:
        best = self.judge.best()
        if best is None:
            return
        trial, step, value = best
        if not self.incumbents or self.incumbents[-1][1] != value:
            self.incumbents.append((self.now, value, self.configs[trial - 1], step))
