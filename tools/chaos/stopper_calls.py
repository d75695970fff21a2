"""Calls of a stopper with whatever a loop of one's own may pass by mistake."""

from __future__ import annotations

import functools
import math
import pickle
import random
import warnings
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from acetune import Constraint, Stopper
from acetune.core.errors import AcetuneError
from acetune.core.goals import Estimate
from acetune.policies import POLICY_NAMES, make_policy
from acetune.policies.stopper import StopperTrial
from tools.chaos.campaign import Part, Tally, told

CALLS = 2_000  # of a round
_CALLS_OF_ONE = 60  # of one stopper; then a new one, so that looking at all of it stays cheap
LIMITS = {"g": 0.5, "h": 10.0}


class Odd:
    """Says nothing about itself but an error."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")

    __str__ = __float__ = __index__ = __len__ = __iter__ = __getitem__ = __repr__  # type: ignore[assignment]


NUMBERS: tuple[Any, ...] = (
    *(0, 1, -1, 0.25, 0.5, 0.75, 3, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf),
    *(2**31, 2**53 + 1, 2**62, 2**63, 10**400, -(10**400), True, False, np.True_),
    *(np.float32(0.1), np.float64(0.2), np.int64(3), np.uint64(2**64 - 1), np.float16(9)),
    *(np.array(0.3), np.array([0.1]), np.array([1, 2]), np.array("0.2"), np.datetime64("nat")),
    *(np.timedelta64(3, "s"), np.ma.masked, 1j, np.complex64(1)),
    *(Decimal("0.1"), Decimal("nan"), Fraction(1, 3), Fraction(10**400)),
    *("0.1", "", "\udc80", b"1", None, (), (0.1, 0.01), (0.1, -1), (0.1, math.nan), [0.1], {}),
    *({"g": 0.1}, set(), object, Odd(), len, ..., NotImplemented, range(3), iter(())),
    *(Estimate(0.1), Estimate(math.nan), ValueError("a failed check")),
)
"""Numbers, and what is none."""


def _same(before: bytes, now: bytes) -> bool:
    """Whether two pickles hold the same."""
    # once to and fro: two objects that are equal may have been one, and a pickle shows that
    return before == now or len({pickle.dumps(pickle.loads(one)) for one in (before, now)}) == 1


def _measured(chance: random.Random) -> Any:
    if chance.random() < 0.1:
        return chance.choice(NUMBERS)
    names: list[Any] = ["g", "h"]
    if chance.random() < 0.1:
        names[chance.randrange(2)] = chance.choice(["", "G", "loss", 1, None, ("g",)])
    return {name: _number(chance) for name in names[: chance.choice([0, 1, 2, 2, 2, 2])]}


def _number(chance: random.Random) -> Any:
    return chance.choice(NUMBERS) if chance.random() < 0.3 else chance.uniform(0, 1)


def _step(chance: random.Random, handle: StopperTrial | None) -> Any:
    if handle is None or chance.random() < 0.25:
        return chance.choice(NUMBERS)
    return max(1, handle.record.progress.last_step + chance.choice([-1, 0, 1, 1, 1, 1, 1, 2]))


def _start(stopper: Stopper, handles: list[StopperTrial], chance: random.Random) -> None:
    name = chance.choice(NUMBERS) if chance.random() < 0.3 else chance.randrange(5)
    total = chance.choice(NUMBERS) if chance.random() < 0.3 else chance.choice([None, 1, 3, 9, 30])
    resumed = chance.choice(NUMBERS) if chance.random() < 0.1 else 0
    handles.append(stopper.start(name, total, resumed_from=resumed))


def _call(
    stopper: Stopper, handles: list[StopperTrial], chance: random.Random, given: list[Any]
) -> None:
    """One call, whatever it is; ``given`` collects what checks are said to have measured."""
    kind = chance.random()
    if kind < 0.12 or not handles:
        _start(stopper, handles, chance)
        return
    handle = chance.choice(handles[-4:])
    step, value = _step(chance, handle), _number(chance)
    if kind < 0.3:
        handle.check_due(step, value, snapshot=chance.random() < 0.7)
    elif kind < 0.85:
        measured = _measured(chance) if chance.random() < 0.6 else None
        options: dict[str, Any] = {}
        for name in ("primary_cost_s", "constraint_cost_s", "snapshot_cost_s"):
            if chance.random() < 0.15:
                options[name] = _number(chance)
        if chance.random() < 0.1:
            options["checked_step"] = _step(chance, handle)
        given.append(measured)
        handle.observe(step, value, measured, **options)
    elif kind < 0.9:
        handle.declare(_step(chance, handle))
    elif kind < 0.93:
        handle.finish_due(snapshot=chance.random() < 0.7)
    elif kind < 0.96:
        given.append(_measured(chance) if chance.random() < 0.5 else None)
        handle.finish(given[-1], _number(chance) if chance.random() < 0.2 else None)
    elif kind < 0.98:
        handle.fail("it failed")
    else:
        handle.interrupt("it was cut off")


def _is_number(found: Any) -> bool:
    """Whether a value that was given is a finite number, by a rule of our own."""
    if isinstance(found, Estimate):
        return math.isfinite(found.value)
    if isinstance(found, tuple):
        return len(found) == 2 and all(map(_is_number, found)) and found[1] >= 0
    if isinstance(found, np.ndarray):
        return found.size == 1 and found.dtype.kind in "fiu" and math.isfinite(float(found.item()))
    kinds = (int, float, Decimal, Fraction, np.integer, np.floating)
    if isinstance(found, (bool, np.timedelta64)) or not isinstance(found, kinds):
        return False
    try:
        return math.isfinite(float(found))
    except OverflowError:
        return False


def _look_at_best(stopper: Stopper, given: list[Any], tally: Tally) -> None:
    """The best feasible checkpoint holds all limits, by values that were given as numbers."""
    best = stopper.best
    if best is None:
        return
    values = {name: best.constraints[name] for name in LIMITS}
    for name, limit in LIMITS.items():
        found = values[name]
        holds = isinstance(found, Estimate) and found.value <= limit
        tally.require("wrong", holds, f"{found!r} is called feasible: {name} <= {limit}")
    told = [
        measured
        for measured in given
        if isinstance(measured, dict)
        and set(measured) == set(LIMITS)
        and all(_is_number(measured[name]) for name in LIMITS)
    ]
    tally.require("wrong", told, f"{values!r} was never given")


def calls(chance: random.Random, _: Path, tally: Tally, some: int = CALLS) -> None:
    """A round."""
    warnings.simplefilter("ignore")  # of steps that are reported again
    constraints = [Constraint(name, upper=limit) for name, limit in LIMITS.items()]
    for start in range(0, some, _CALLS_OF_ONE):
        policy = make_policy(chance.choice(POLICY_NAMES))
        stopper = Stopper(objective="loss", mode="min", constraints=constraints, policy=policy)
        handles: list[StopperTrial] = []
        given: list[Any] = []
        before = pickle.dumps(stopper)  # all that it knows
        for _call_number in range(start, min(start + _CALLS_OF_ONE, some)):
            tally.count("calls")
            try:
                _call(stopper, handles, chance, given)
            except AcetuneError as error:
                tally.count("refused")
                now = pickle.dumps(stopper)
                if not _same(before, now):
                    tally.fault("wrong", f"refused, and changed the stopper: {error}")
            except Exception as error:
                tally.fault("raw error", told(error))
                now = pickle.dumps(stopper)
            else:
                now = pickle.dumps(stopper)
            before = now
        _look_at_best(stopper, given, tally)


PART = Part(
    promise="A stopper raises its documented errors only, ends, and is unchanged by what it "
    "refuses; what it calls feasible holds every limit.",
    how="Calls of `Stopper` with numbers, arrays, texts and objects of all kinds in every place, "
    "under all policies; all of its state is compared after each call that was refused.",
    round=calls,
    rounds=500,
    small=functools.partial(calls, some=500),
    limit_s=600,
)
