"""What every check of a constraint must do, whatever it measures."""

from __future__ import annotations

import math
import pickle
import random
import sys
from collections.abc import Callable
from typing import Any

import cloudpickle

from acetune.core.goals import Constraint, Estimate, FailedCheck
from acetune.testing._require import require
from acetune.trial.checks import call_check


def check_constraint(check: Constraint | Callable[..., Any], model: Any) -> None:
    """Raise AssertionError unless a check can be used in a study.

    It is called with ``model``, as it would be by a trial. Checked is that it gives a finite
    number, within the range it names; that it changes neither the model nor the random numbers of
    training, since when it is called depends on what it costs; that a second measurement agrees,
    unless it tells a standard error; and that it can be sent to a worker.

    Parameters
    ----------
    check:
        A function or object, or a :class:`~acetune.Constraint` with its check.
    model:
        What ``report(model=...)`` is given; the configuration for a constraint with
        ``on="config"``.

    >>> check_constraint(len, model=[1, 2, 3])
    """
    name, call = _taken_apart(check)
    for attribute in ("measured_alone", "measures_again"):
        value = getattr(call, attribute, False)
        text = f"{name}: {attribute} must be True or False, got {value!r}"
        require(isinstance(value, bool), text)
    first = _measured(call, name, model)
    _require_range(call, name)

    before, dice = _frozen(model), _dice()
    second = _measured(call, name, model)
    require(before is None or _frozen(model) == before, f"{name}: the check has changed the model")
    require(
        _dice() == dice,
        f"{name}: the check draws from the random numbers of training; use a generator of its own, "
        "such as random.Random(0) or numpy.random.default_rng(0)",
    )
    _require_agreement(name, "a second measurement of the same model", first, second)

    try:
        sent = pickle.loads(cloudpickle.dumps(call))
    except Exception as error:
        raise AssertionError(f"{name}: the check cannot be sent to a worker: {error}") from error
    there = _measured(sent, name, model)
    _require_agreement(name, "the check sent to a worker", first, there)


def _taken_apart(check: Constraint | Callable[..., Any]) -> tuple[str, Callable[..., Any]]:
    """What to call it in messages, and what to call."""
    if isinstance(check, Constraint):
        require(check.check is not None, f"{check.name}: the constraint has no check to look at")
        assert check.check is not None
        return check.name, check.check
    require(callable(check), f"a check must be callable, got {check!r}")
    return getattr(check, "__name__", type(check).__name__), check


def _measured(call: Callable[..., Any], name: str, model: Any) -> Estimate:
    found = call_check(call, name, model)
    if isinstance(found, FailedCheck):
        raise AssertionError(f"{name}: the check failed: {found.error}")
    return found


def _require_range(call: Callable[..., Any], name: str) -> None:
    known = getattr(call, "value_range", None)
    if known is None:
        return
    low, high = known
    require(low < high, f"{name}: value_range must be (least, largest), got {known!r}")


def _require_agreement(name: str, what: str, first: Estimate, other: Estimate) -> None:
    if first.stderr or other.stderr:
        return  # a noisy one, and it says so
    require(
        math.isclose(first.value, other.value, rel_tol=1e-9, abs_tol=1e-12),
        f"{name}: {what} gives {other.value}, and the first {first.value}; return "
        "acetune.Estimate(value, stderr) if it is noisy",
    )


def _frozen(model: Any) -> bytes | None:
    """The model in bytes; None where it has no bytes that stay the same."""
    try:
        found = cloudpickle.dumps(model)
        same = cloudpickle.dumps(model) == found
    except Exception:
        return None
    return bytes(found) if same else None


def _dice() -> tuple[object, ...]:
    """Where the random numbers of Python, and of the packages that are in use, stand."""
    state: list[object] = [random.getstate()]
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state()
        state += [kind, keys.tobytes(), *rest]
    if "torch" in sys.modules:
        state.append(bytes(sys.modules["torch"].get_rng_state().tolist()))
    return tuple(state)
