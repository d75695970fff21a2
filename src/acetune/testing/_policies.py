"""What every policy must do, whatever its rule."""

from __future__ import annotations

import json
import math
import pickle
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import cloudpickle

from acetune.core.decision import Decision
from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.core.outcome import outcome
from acetune.policies import Policy
from acetune.policies.stopper import Stopper, StopperTrial
from acetune.testing._require import require, require_all

SEEDS = (0, 1, 2)
LAST = 9  # the last step of every trial
TRIALS = 60


def check_policy(policy: Policy) -> None:
    """Raise AssertionError unless a policy keeps to the protocol.

    It is run on random trials, with violations, failed checks and objectives that are not finite.
    Checked is that asking changes nothing, that a replay and a resumed study decide like the run,
    that names of trials do not matter, that every decision has a reason, and that the policy can
    be sent to another process and made again from its options.

    >>> import acetune
    >>> check_policy(acetune.ACE(truncation=0.5))
    """
    require(isinstance(policy, Policy), f"{policy!r} does not inherit from acetune.Policy")
    require_all(POLICY_CHECKS, policy, repr(policy))


# -- random studies ------------------------------------------------------------------------------


class DecidedReport(NamedTuple):
    """One report as it was made, with what was decided."""

    trial: str
    step: int
    value: float
    constraints: dict[str, float | Estimate | FailedCheck] | None
    checked_step: int | None
    costs: tuple[float, float | None]
    decision: Decision


def _as_it_is(value: float) -> float:
    return value


def _some_value(rng: random.Random) -> float:
    return rng.choice((rng.random(), rng.choice((0.25, 0.5, 0.75)), math.nan, math.inf))


def _some_measurement(rng: random.Random) -> float | Estimate | FailedCheck:
    value = rng.choice((0.0, 0.25, 0.5, 1.0))
    return rng.choice((value, Estimate(value, 0.1), math.nan, FailedCheck("raised")))


class RandomStudy:
    """A study of interleaved random trials under one policy."""

    def __init__(
        self,
        policy: Policy,
        seed: int,
        *,
        constraints: bool = True,
        mode: Literal["min", "max"] = "min",
        rename: Callable[[int], str] = "trial-{}".format,
        value: Callable[[float], float] = _as_it_is,
    ) -> None:
        limits = [Constraint("g", upper=0.5), Constraint("h", lower=0.25, margin_se=1.0)]
        self.stopper = Stopper(
            objective="loss", mode=mode, constraints=limits if constraints else (), policy=policy
        )
        self.log: list[str | DecidedReport] = []  # a trial that starts, or a report
        self.asked_for: list[int | None] = []
        rng = random.Random(seed)
        waiting = [rename(index) for index in range(TRIALS)]
        running: dict[str, StopperTrial] = {}
        while waiting or running:
            while waiting and len(running) < 4:
                trial = waiting.pop(0)
                running[trial] = self.stopper.start(trial, LAST)
                self.log.append(trial)
            trial = list(running)[rng.randrange(len(running))]
            handle = running[trial]
            step = min(LAST, handle.record.progress.last_step + rng.choice((1, 1, 1, 2)))
            reported = value(_some_value(rng))
            due = handle.check_due(step, reported)
            self.asked_for += [due, handle.finish_due()]
            measured = {"g": _some_measurement(rng), "h": _some_measurement(rng)}
            check_cost = rng.choice((0.5, 2.0, 8.0))
            costs = (1.0, None if due is None else check_cost)
            given = None if due is None else measured
            decision = handle.observe(step, reported, given, *costs, checked_step=due)
            require(
                isinstance(decision, Decision), f"decide() must return a Decision, got {decision!r}"
            )
            self.log.append(DecidedReport(trial, step, reported, given, due, costs, decision))
            if handle.state != "running":
                del running[trial]

    @property
    def reports(self) -> list[DecidedReport]:
        """The reports, in order."""
        return [event for event in self.log if isinstance(event, DecidedReport)]

    @property
    def decisions(self) -> list[Decision]:
        """What was decided on each report."""
        return [report.decision for report in self.reports]

    @property
    def answers(self) -> list[tuple[object, ...]]:
        """The decisions without the number they were compared with, which has a unit."""
        return [(d.action, d.why, d.stratum, d.rank, d.of, d.step) for d in self.decisions]


@lru_cache(maxsize=256)
def played(policy: Policy, seed: int) -> RandomStudy:
    """The same run for all checks that only look at it."""
    return RandomStudy(policy, seed)


def _again(run: RandomStudy, resumed_after: int = 0) -> Stopper:
    """The same reports in the same order, to a new stopper; the decisions must be the same.

    The first so many are known from the study file, with what was decided on them.
    """
    goals = run.stopper.goals
    stopper = Stopper(
        objective="loss",
        mode=goals.objective.mode,
        constraints=goals.constraints,
        policy=pickle.loads(pickle.dumps(run.stopper.policy)),
    )
    handles = {}
    for index, event in enumerate(run.log):
        if isinstance(event, str):
            handles[event] = stopper.start(event, LAST)
            continue
        decision = handles[event.trial].observe(
            event.step,
            event.value,
            event.constraints,
            *event.costs,
            checked_step=event.checked_step,
            decided=event.decision if index < resumed_after else None,
        )
        how = "a resumed study" if resumed_after else "a replay of the same reports"
        require(
            decision == event.decision,
            f"{how} decides otherwise at step {event.step} of {event.trial!r}: {decision}, and "
            f"live {event.decision}; a policy may look at its arguments only",
        )
    return stopper


def _stopper(policy: Policy, mode: Literal["min", "max"] = "min") -> Stopper:
    """One that has seen nothing, with one constraint."""
    limit = Constraint("g", upper=0.5)
    return Stopper(objective="loss", mode=mode, constraints=[limit], policy=policy)


def state(stopper: Stopper) -> tuple[object, ...]:
    """What a study has come to."""
    history = stopper.history
    trials = [
        (record.id, record.state, record.reason, record.progress, outcome(record, history))
        for record in history.trials.values()
    ]
    return trials, stopper.best, history.nearest, history.gate, history.costs, history.strata


# -- the policy as an object ---------------------------------------------------------------------


def its_options_make_it_again(policy: Policy) -> None:
    """The study file holds the options as JSON; another process gets a pickle."""
    options = policy.options()
    try:
        read = json.loads(json.dumps(options))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"its options {options!r} cannot be stored as JSON: {error}") from None
    require(read == options, f"its options {options!r} come back from JSON as {read!r}")
    kind = type(policy)
    hint = "write @dataclasses.dataclass(frozen=True) above the class"
    try:
        again = kind(**read)
    except Exception as error:
        raise AssertionError(f"its options {options!r} do not make it again: {error}") from error
    require(again == policy, f"made again from its options it is not the same: {hint}")
    try:
        known = hash(policy)
    except TypeError as error:
        raise AssertionError(f"it has no hash ({error}): {hint}") from None
    packages: tuple[Any, ...] = (pickle, cloudpickle)
    for package in packages:
        sent = pickle.loads(package.dumps(policy))
        same = sent == policy and hash(sent) == known and vars(sent) == vars(policy)
        require(same, f"after {package.__name__} it is another one, {sent!r}: {hint}")
    require(
        eval(repr(policy), {kind.__name__: kind}) == policy,
        f"its repr {policy!r} is not how to make it",
    )


# -- asking --------------------------------------------------------------------------------------


def asking_changes_nothing(policy: Policy) -> None:
    """Neither the policy nor the history, and the same question has the same answer."""
    for seed in SEEDS:
        stopper = RandomStudy(policy, seed).stopper
        trial = stopper.start("new", LAST)
        trial.observe(1, 0.5)
        before = pickle.dumps((stopper.history, stopper.policy))
        for snapshot in (True, False):
            for step in (2, LAST):
                for value in (0.0, 1.0, math.nan):
                    asked = [trial.check_due(step, value, snapshot=snapshot) for _ in range(2)]
                    require(asked[0] == asked[1], f"due() answers {asked[0]}, and then {asked[1]}")
            ends = [trial.finish_due(snapshot=snapshot) for _ in range(2)]
            require(ends[0] == ends[1], f"due_at_end() answers {ends[0]}, and then {ends[1]}")
        require(
            pickle.dumps((stopper.history, stopper.policy)) == before,
            "asking what is due has changed the policy or the history",
        )


def the_first_check_is_a_step_of_the_trial(policy: Policy) -> None:
    """And to choose it changes nothing."""
    stopper = RandomStudy(policy, seed=0).stopper
    before = pickle.dumps(stopper.history)
    for total_steps in (None, 1, 10):
        costs = stopper.history.costs
        first = policy.first_check(total_steps, costs)
        again = policy.first_check(total_steps, costs)
        require(again == first, f"first_check() answers {first}, and then {again}")
        if first is None:
            require(
                total_steps is None, f"first_check({total_steps}, ...) must be a step, got None"
            )
        else:
            require(
                1 <= first <= (total_steps or first),
                f"first_check({total_steps}, ...) must be a step of the trial, got {first}",
            )
    require(pickle.dumps(stopper.history) == before, "first_check() has changed the history")


def what_is_due_can_be_checked(policy: Policy) -> None:
    """The reporting checkpoint, or the best one so far, of which a copy was asked for."""
    for total_steps in (None, LAST):
        trial = _stopper(policy).start("new", total_steps)
        progress = trial.record.progress
        rng = random.Random(0)
        for step in range(1, LAST + 1):
            loss = rng.random()
            best = step if loss < progress.best_loss else progress.best_step
            due, copied = policy.due(progress, step, loss), policy.may_check_best(progress)
            require(
                due in (None, step, best),
                f"due() at step {step} must be None, that step or the best one, {best}; got {due}",
            )
            require(
                due in (None, step) or copied,
                f"due() wants step {due} checked at step {step}, but may_check_best() was False: "
                "no copy of it exists",
            )
            progress.advance(step, loss, None)
            due, copied = policy.due_at_end(progress), policy.may_check_best(progress)
            require(
                due in (None, step, progress.best_step),
                f"due_at_end() after step {step} must be None, the last step or the best one, "
                f"{progress.best_step}; got {due}",
            )


# -- deciding ------------------------------------------------------------------------------------


def a_replay_decides_like_the_run(policy: Policy) -> None:
    """The same reports give the same decisions, and come to the same."""
    for seed in SEEDS:
        run = played(policy, seed)
        require(state(_again(run)) == state(run.stopper), "a replay comes to another result")


def a_resumed_study_decides_like_the_run(policy: Policy) -> None:
    """Half of the reports are known from the study file, with the decisions taken."""
    for seed in SEEDS:
        run = played(policy, seed)
        resumed = _again(run, resumed_after=len(run.log) // 2)
        require(state(resumed) == state(run.stopper), "a resumed study comes to another result")


def the_names_of_trials_do_not_matter(policy: Policy) -> None:
    """Only their order does."""
    for seed in SEEDS:
        run = played(policy, seed)
        renamed = RandomStudy(
            policy, seed, rename=lambda index: f"{(index * 37) % TRIALS:03d} other"
        )
        require(
            renamed.answers == run.answers and renamed.asked_for == run.asked_for,
            "trials with other names are decided on otherwise; use trial.order, not trial.id",
        )


def maximising_is_minimising_the_negative(policy: Policy) -> None:
    """A policy sees losses, of which smaller is better."""
    for seed in SEEDS:
        mirrored = RandomStudy(policy, seed, mode="max", value=lambda value: -value)
        require(
            mirrored.answers == played(policy, seed).answers,
            "to maximise the negative objective is decided on otherwise; compare report.loss",
        )


def nobody_is_stopped_at_the_last_step(policy: Policy) -> None:
    """It has paid for all its training."""
    for seed in SEEDS:
        run = played(policy, seed)
        for report in run.reports:
            if report.step == LAST:
                ended = run.stopper.history.trials[report.trial].state
                require(not report.decision.stop, f"{report.trial!r} is stopped at its last step")
                require(ended == "finished", f"{report.trial!r} is {ended} after its last step")
    stopper = _stopper(policy)
    for index in range(20):
        stopper.start(index, 10).observe(1, 0.1)
    trial = stopper.start("worst", 1)
    require(not trial.observe(1, 0.9).stop, "the worst of many is stopped at its last step")
    require(trial.state == "finished", f"the worst of many is {trial.state} after its last step")


def every_decision_has_a_reason(policy: Policy) -> None:
    """In words, with all numbers filled in."""
    for seed in SEEDS:
        run = played(policy, seed)
        for decision in run.decisions:
            _require_words(decision)
        for record in run.stopper.history.trials.values():
            require(str(record.reason).strip(), f"trial {record.id!r} has ended without a reason")
    trial = RandomStudy(policy, seed=0).stopper.start("new", LAST)
    for step in (1, 2, 3):  # a report made twice has a reason too
        if not trial.observe(step, 0.0).stop:
            _require_words(trial.observe(step, 0.0))


def _require_words(decision: Decision) -> None:
    for reason in (decision.reason, decision.because.short):
        filled = reason.strip() and not set(reason) & set("{}")
        require(filled, f"the reason of {decision} reads {reason!r}")


def decisions_hold_numbers(policy: Policy) -> None:
    """A rank has how many were ranked, and what was compared with is known: no None, no NaN."""
    for seed in SEEDS:
        for decision in played(policy, seed).decisions:
            rank, of = decision.rank, decision.of
            for name, number in decision.numbers.items():
                known = isinstance(number, str) or (number is not None and not math.isnan(number))
                require(known, f"{name} of {decision} is {number}")
            require((rank is None) == (of is None), f"{decision} has only one of rank and of")
            if rank is not None and of is not None:
                require(1 <= rank <= of, f"{decision} has rank {rank} of {of}")


# -- values that are not finite ------------------------------------------------------------------


def an_objective_that_is_not_finite_is_never_the_best(policy: Policy) -> None:
    """Whatever is measured of such a checkpoint."""
    modes: tuple[Literal["min", "max"], ...] = ("min", "max")
    for mode in modes:
        for value in (math.nan, math.inf, -math.inf):
            stopper = _stopper(policy, mode)
            for name, reported in (("broken", value), ("fine", 0.5), ("broken too", value)):
                stopper.start(name, 1).observe(1, reported, {"g": 0.0})
            best = stopper.best
            require(
                best is not None and best.trial == "fine",
                f"with an objective of {value} (mode={mode!r}) the best is {best}",
            )


def the_searcher_is_told_finite_numbers(policy: Policy) -> None:
    """Of every trial, however it went."""
    for seed in SEEDS:
        history = played(policy, seed).stopper.history
        for record in history.trials.values():
            told = outcome(record, history)
            finite = told.failed if told.loss is None else math.isfinite(told.loss)
            require(
                finite and math.isfinite(told.violation) and told.violation >= 0,
                f"of trial {record.id!r} the searcher is told {told}",
            )


# -- checks that are not made --------------------------------------------------------------------


def nothing_is_checked_where_nothing_is_to_be(policy: Policy) -> None:
    """In a study without constraints, and in a run that checks afterwards."""
    for seed in SEEDS:
        asked = set(RandomStudy(policy, seed, constraints=False).asked_for)
        require(asked == {None}, "a check is due in a study without constraints")
        if policy.checks_after_run:
            asked = set(played(policy, seed).asked_for)
            require(asked == {None}, "a check is due during a run that checks afterwards")


POLICY_CHECKS: tuple[Callable[[Policy], None], ...] = (
    its_options_make_it_again,
    what_is_due_can_be_checked,
    the_first_check_is_a_step_of_the_trial,
    asking_changes_nothing,
    a_replay_decides_like_the_run,
    a_resumed_study_decides_like_the_run,
    the_names_of_trials_do_not_matter,
    maximising_is_minimising_the_negative,
    nobody_is_stopped_at_the_last_step,
    decisions_hold_numbers,
    every_decision_has_a_reason,
    an_objective_that_is_not_finite_is_never_the_best,
    the_searcher_is_told_finite_numbers,
    nothing_is_checked_where_nothing_is_to_be,
)
