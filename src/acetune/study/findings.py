"""What can be found in a study: checkpoints, their confirmation, and what it all cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from acetune.core.errors import BrokenModelError, ReportError
from acetune.core.formatting import number
from acetune.core.goals import Constraint, Estimate, Goals
from acetune.trial.artifacts import Kept, load_model

Status = Literal["certified", "holds", "unconfirmed", "broken"]
RAY_TUNE = "ray tune"  # the engine of a study that a Tuner of one's own runs
SUSPICIOUS = 0.05  # chance of what would show that fresh rows are those of the search
_NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Bound:
    """What fresh data lets one claim about a constraint.

    ``value`` comes from a method that gives one which the true value lies beyond with a probability
    of at most ``level``, over the draw of the fresh rows; nearly so where it is ``approximate``.
    The constraint passes where ``p_value``, of the limit itself, is at most ``level``. ``refused``
    says why there is no bound, ``more_rows`` how many times as many rows would probably do where
    the value holds and the bound does not. ``unit`` is what was counted: rows, or timed calls.
    """

    level: float
    p_value: float
    value: float | None
    how: str
    approximate: bool = False
    rows: int | None = None
    refused: str | None = None
    more_rows: float | None = None
    unit: str = "rows"

    @property
    def passes(self) -> bool:
        """Whether the limit itself passes at this level."""
        return self.p_value <= self.level


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What the confirmation data said of a checkpoint.

    ``ranges`` are the least and the largest possible value of constraints whose check knows them,
    ``bounds`` what can be claimed about each constraint, ``look`` the number of the look at fresh
    data that it was part of. ``of_earlier_check``: a check was changed and all was measured again
    since, so that the values count no more and are left out.
    """

    status: Status
    values: Mapping[str, Estimate]
    error: str | None = None
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    bounds: Mapping[str, Bound] = field(default_factory=dict)
    look: int = 1
    of_earlier_check: bool = False

    @property
    def approximate(self) -> bool:
        """Whether a bound holds only nearly, and so does a certificate that rests on it."""
        return any(bound.approximate for bound in self.bounds.values())

    def interval(self, name: str) -> tuple[float, float] | None:
        """The 95 % interval of a value that came with a standard error.

        It is a normal one, and cut where it leaves the range of what can be.

        >>> found = {"gap": Estimate(0.01, 0.01)}
        >>> [round(end, 4) for end in Confirmation("holds", found).interval("gap")]
        [-0.0096, 0.0296]
        >>> Confirmation("holds", found, ranges={"gap": (0, 1)}).interval("gap")[0]
        0
        """
        found = self.values.get(name)
        if found is None or found.stderr == 0:
            return None
        half = _NORMAL_95 * found.stderr
        low, high = self.ranges.get(name, (-math.inf, math.inf))
        # a value that lies outside all the same is not hidden
        return max(found.value - half, min(low, found.value)), min(
            found.value + half, max(high, found.value)
        )


CheckpointKey: TypeAlias = tuple[int, int, int]  # trial, attempt and step of a checkpoint


def latest_uses(uses: Sequence[Mapping[str, Any]]) -> dict[CheckpointKey, Mapping[str, Any]]:
    """The latest use of the confirmation data on each checkpoint, in the order of the first.

    A certificate stands until a limit is found to be broken. Where ``confirm`` went wrong nothing
    was learned: what was said before stands, unless that was about an earlier check.
    """
    found: dict[CheckpointKey, Mapping[str, Any]] = {}
    for use in uses:
        key = use["trial"], use["attempt"], use["step"]
        known = found.get(key)
        if known is not None and not known.get("of_earlier_check"):
            if use["status"] == "unconfirmed":
                continue
            if known["status"] == "certified" and use["status"] != "broken":
                continue
        found[key] = use
    return found


def broken_on_fresh(goals: Goals, values: Mapping[str, Estimate]) -> list[Constraint]:
    """The constraints whose limit the values on fresh data break.

    It is the limit itself, without the search's margin: fresh data owes nothing to the search.
    """
    return [
        limit
        for limit in goals.constraints
        if limit.name in values and not limit.without_margin().holds(values[limit.name])
    ]


def judge_fresh(goals: Goals, values: Mapping[str, Estimate], error: str | None) -> Status:
    """The verdict of fresh data on a checkpoint.

    One broken limit is enough, whatever else went wrong; else every value must be there and hold.
    Whether a certificate is issued is the procedure's to say.

    >>> from acetune.core.goals import Objective
    >>> goals = Goals(Objective("loss"), (Constraint("g", upper=2), Constraint("h", upper=1)))
    >>> judge_fresh(goals, {"g": Estimate(9.0)}, "h is nan"), judge_fresh(goals, {}, "h is nan")
    ('broken', 'unconfirmed')
    """
    if broken_on_fresh(goals, values):
        return "broken"
    whole = error is None and all(limit.name in values for limit in goals.constraints)
    return "holds" if whole else "unconfirmed"


def chance_of_the_same(
    goals: Goals,
    found: FoundCheckpoint,
    values: Mapping[str, Estimate],
    bounds: Mapping[str, Bound],
) -> float:
    """How likely other rows than those of the search give the very values that these gave.

    1 where they differ, or where it tells nothing.
    """
    chance = 1.0
    for name in (c.name for c in goals.constraints if not c.compared_directly and c.name in values):
        value, stderr = values[name]
        if values[name] != found.constraints.get(name):
            return 1.0
        if stderr > 0 and value not in (0.0, 1.0):
            rows: float | None = bounds[name].rows if name in bounds else None
            if rows is None and 0 < value < 1:  # as many as a share with this error has
                rows = value * (1 - value) / stderr**2
            # a share of so many rows, at the most likely of its values; a mean has no such steps
            chance *= 0.0 if rows is None else min(1.0, 0.4 / (rows * stderr))
    return chance


def looks_of_earlier_checks(
    looks: Sequence[Mapping[str, Any]], changes: Sequence[Mapping[str, Any]]
) -> set[int]:
    """The looks at fresh data made before a check was changed and all was measured again.

    ``Store`` sees to it that the times are in the order in which that happened, whatever the clock.

    >>> looks = [{"look": 1, "started": 10.0}, {"look": 2, "started": 20.0}]
    >>> looks_of_earlier_checks(looks, [{"how": "measure_again", "time": 15.0}])
    {1}
    """
    times = [change["time"] for change in changes if change["how"] == "measure_again"]
    return {look["look"] for look in looks if look["started"] <= max(times, default=-math.inf)}


def set_aside(use: Mapping[str, Any]) -> dict[str, Any]:
    """A use of fresh data that was about an earlier check: it says nothing of the one of now."""
    told: dict[str, Any] = {"status": "unconfirmed", "metrics": {}, "bounds": {}, "error": None}
    return {**use, **told, "of_earlier_check": True}


def judged_now(
    use: Mapping[str, Any], goals: Goals, then: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """A use of fresh data with its verdict under the limits of ``goals``.

    ``then`` are the limits in force at that use. A certificate is about these: it holds of looser
    ones as well, and says nothing of stricter ones. What was tested is not tested again here.
    """
    limits = {one["name"]: one.get("upper", one.get("lower")) for one in then}
    moved = [limit for limit in goals.constraints if limits[limit.name] != limit.limit]
    if not moved:
        return dict(use)
    loosened = all((limit.limit > limits[limit.name]) == (limit.lower is None) for limit in moved)
    if use["status"] == "certified" and loosened:
        return dict(use)
    bounds = dict(use["bounds"])
    for limit in moved:
        if limit.name in bounds:
            why = (
                f"these fresh rows have tested it against {limit.sense} "
                f"{number(limits[limit.name], 6)}, the limit at that time; other fresh rows can "
                "test it again"
            )
            said = {"p_value": 1.0, "value": None, "refused": why, "more_rows": None}
            bounds[limit.name] = bounds[limit.name] | said
    status = judge_fresh(goals, use["metrics"], use["error"])
    return {**use, "status": status, "bounds": bounds}


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A configuration at a step, with its values and its model.

    ``value`` is the objective in the search; ``constraints`` what the checks measured. ``status``
    says what fresh data, which the search never saw, lets one claim: ``"certified"``, every bound
    lies within its limit; ``"holds"``, the values do and a bound does not; ``"broken"``, a limit is
    broken there; ``"unconfirmed"``, nobody looked, or ``confirm`` went wrong.

    It is the model at ``step``, which need not be the last of its trial's
    ``total_steps``: trained on, the same parameters may break a limit.

    ``next_best`` is the next candidate of the study that fresh data has not spoken against and
    whose model is there, should this one's be lost.
    """

    trial: int
    attempt: int
    step: int
    params: Mapping[str, Any]
    value: float
    constraints: Mapping[str, Estimate]
    violation: float
    checkpoint: Path | None
    confirmation: Confirmation | None = None
    total_steps: int | None = field(default=None, compare=False)  # of its trial, where known
    kept: Kept | None = field(default=None, repr=False, compare=False)  # what was written there
    next_best: FoundCheckpoint | None = field(default=None, repr=False, compare=False)
    # by which the checks judged it then, in standard errors; those of the study may be others now
    margins: Mapping[str, float] = field(default_factory=dict, repr=False, compare=False)
    # what else the checks said, by constraint: the shares of the model's predictions
    notes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, repr=False, compare=False)

    @property
    def status(self) -> Status:
        """certified, holds, unconfirmed or broken."""
        return "unconfirmed" if self.confirmation is None else self.confirmation.status

    @property
    def certified_approximately(self) -> bool:
        """Whether it is certified, and a bound of the certificate holds only nearly."""
        said = self.confirmation
        return said is not None and said.status == "certified" and said.approximate

    def load(self, *, trusted: bool = True) -> object:
        """The model that was kept: what ``report(model=...)``, or its snapshot, gave.

        A model that was pickled can run any code when it is loaded: its maker's. For a study that
        you do not trust say ``trusted=False``: then files are given by their path, plain data
        (numbers, texts, lists, dicts) as it is, and anything else is an error.
        """
        if self.checkpoint is None:
            raise ReportError(
                f"no model was kept of trial {self.trial} step {self.step}: models are kept of the "
                "best valid checkpoints, if reported with trial.report(..., model=...); train its "
                "parameters again for that many steps"
            )
        fault = self.model_fault()
        if fault is not None:
            raise BrokenModelError(
                f"the model of trial {self.trial} step {self.step} cannot be loaded: "
                f"{self.checkpoint} {fault}; {self.instead()}"
            )
        return load_model(self.checkpoint, trusted=trusted)

    def model_fault(self, *, full: bool = True) -> str | None:
        """What is wrong with the kept model (missing, empty, changed), in words; None: nothing.

        ``full`` reads all of it to compare checksums; else only sizes are looked at.
        """
        return None if self.kept is None else self.kept.fault(full=full)

    def instead(self) -> str:
        """What to use in place of a model that is lost."""
        other = self.next_best
        if other is None:
            return "no other candidate has a model: train its parameters again for that many steps"
        return (
            f"next best is trial {other.trial} step {other.step} with {number(other.value)}: "
            "result.best.next_best.load()"
        )


def checkpoint_key(found: FoundCheckpoint) -> CheckpointKey:
    """What identifies a checkpoint in its study."""
    return found.trial, found.attempt, found.step


def broken_limits(goals: Goals, found: FoundCheckpoint) -> list[Constraint]:
    """The constraints whose limit the measurements of the search break, margin included."""
    return [
        limit
        for limit in goals.with_margins(found.margins).constraints
        if limit.name in found.constraints and not limit.holds(found.constraints[limit.name])
    ]


@dataclass(frozen=True, slots=True)
class FailureOfCheck:
    """The first check of a study that gave no number, and why."""

    trial: int
    constraint: str
    error: str


@dataclass(frozen=True, slots=True)
class ConstraintTime:
    """How often a constraint was measured, and what that took."""

    checks: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the time went, in seconds summed over all workers, and how much lies on disk.

    ``code_bytes`` of ``disk_bytes`` are the code for the workers with its data: it is there only
    while a session runs.
    """

    training_s: float
    startup_s: float
    checks_s: float
    invalid_s: float  # training and checks of trials that were checked and never valid
    wall_s: float
    reports: int
    checks: int
    failed_checks: int
    disk_bytes: int
    by_constraint: Mapping[str, ConstraintTime]
    code_bytes: int = 0
    waiting_s: float = 0.0  # of trials for others, because checks are measured alone

    @property
    def check_share(self) -> float:
        """Share of the training and checking time that went into checks."""
        total = self.training_s + self.checks_s
        return self.checks_s / total if total else 0.0
