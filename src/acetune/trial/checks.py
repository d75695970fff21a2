"""Calling the checks of constraints: in order, timed, and never trusted to work."""

from __future__ import annotations

import functools
import inspect
import os
import site
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Literal, NamedTuple

from acetune.core.errors import AcetuneError, DegenerateModelError, ReportCallError
from acetune.core.goals import (
    Constraint,
    Estimate,
    FailedCheck,
    Goals,
    as_measurement,
    note_of,
)
from acetune.core.reason import Reason, Wording
from acetune.core.say_once import SayOnce
from acetune.trial.link import Report


class Missing:
    """Stands for a model that was not given; None is a model like any other."""

    def __repr__(self) -> str:
        return "no model"


MISSING = Missing()
_TIMEOUT = Wording(
    "check_timeout", "the check of {constraint!r} outran its timeout of {timeout:g} s"
)
_ROUNDING = 1e-9  # by which a value may leave its range
_WHOLE = (0.0, 1.0)  # a share of none or of all has a standard error of 0
# whose lines nobody has to fix: Python's own, what is installed, and this package
_NOT_THEIRS = tuple(
    f"{path}{os.sep}"
    for path in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
        Path(__file__).parents[1],
    )
)


def is_users_file(path: str) -> bool:
    """Whether code is the user's own: not Python's, not installed, not of this package."""
    return bool(path) and not path.startswith((*_NOT_THEIRS, "<frozen"))


class RaisedCheck(FailedCheck):
    """A check that raised: most likely its own fault, where NaN or infinity may be the model's."""

    __slots__ = ()


class RefusedModel(FailedCheck):
    """A check that works and refuses a model: others may do better."""

    __slots__ = ()


def timed_out(constraint: str, timeout_s: float) -> Reason:
    """Why a trial has failed whose check had to be cut off."""
    return Reason(_TIMEOUT, {"constraint": constraint, "timeout": timeout_s})


class Constant:
    """A constraint value given as it is."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __call__(self) -> object:
        """The value."""
        return self._value


class Checked(NamedTuple):
    """What the checks of a checkpoint gave, what they cost, and whether all limits hold."""

    measured: dict[str, Estimate | FailedCheck]
    costs: dict[str, float]
    valid: bool


def evaluate(
    goals: Goals,
    checks: Mapping[str, Callable[..., Any]],
    model: object,
    clock: Callable[[], float],
    checking: Callable[[str | None], None],
    *,
    measuring: Callable[[Callable[..., Any]], AbstractContextManager[object]] = nullcontext,
    best: bool = False,
    order: Sequence[str] | None = None,
) -> Checked:
    """Call the checks in the order declared. After one has failed the rest are not called.

    What ``measuring`` gives surrounds each call, outside of its time and timeout.

    With an ``order`` they are called in that one, and those after a violated or failed one are
    left out, but for values that are given. One that only a margin of acetune's own is in the way
    of is not taken for violated: it may be certified all the same.

    Where all hold and the checkpoint would be the ``best``, those that ask for it are measured once
    more, and what is found then counts: of many noisy measurements the luckiest would win.
    """
    measured: dict[str, Estimate | FailedCheck] = {}
    costs: dict[str, float] = {}
    failed, hold, keeps = "", True, True

    def measure(constraint: Constraint) -> bool:
        name = constraint.name
        with measuring(checks[name]):
            if constraint.timeout_s is not None:
                checking(name)
            began = clock()
            measured[name] = call_check(checks[name], name, model)
            costs[name] = costs.get(name, 0.0) + clock() - began
            if constraint.timeout_s is not None:
                checking(None)
        return constraint.holds(measured[name])

    constraints = {constraint.name: constraint for constraint in goals.constraints}
    names = list(constraints)
    if order is not None:  # a value that is given costs nothing, and is never left out
        names = sorted(order, key=lambda name: not isinstance(checks[name], Constant))
    for name in names:
        given = isinstance(checks[name], Constant)
        if order is not None and not given and not keeps:
            break
        if order is None and failed:
            measured[name] = FailedCheck(f"not evaluated, because {failed!r} failed")
            continue
        hold = measure(constraints[name]) and hold
        keeps = keeps and (hold or constraints[name].keeps(measured[name]))
        if isinstance(measured[name], FailedCheck):
            failed = name
    if best and hold:
        for constraint in goals.constraints:
            if getattr(checks[constraint.name], "measures_again", False):
                hold = measure(constraint) and hold
                if order is not None and not hold:
                    break
    return Checked(measured, costs, hold and len(measured) == len(constraints))


def call_check(check: Callable[..., Any], name: str, model: object) -> Estimate | FailedCheck:
    """One check; whatever it raises makes it a failed one."""
    args, kwargs = arguments_for(check, name, model)
    try:
        return _within_range(
            as_measurement(check(*args, **kwargs), f"constraint {name!r}"), check, name
        )
    except DegenerateModelError as error:
        return RefusedModel(str(error))
    except Exception as error:
        return RaisedCheck(f"{type(error).__name__}: {error}{where_raised(error)}")


def _within_range(found: Estimate | FailedCheck, check: Any, name: str) -> Estimate | FailedCheck:
    """A value beyond what its check says can be: a percent for a share, or a wrong sign."""
    while isinstance(check, functools.partial):
        check = check.func
    known = getattr(check, "value_range", None)
    if known is None or isinstance(found, FailedCheck):
        return found
    low, high = known
    if low - _ROUNDING * abs(low or 1) <= found.value <= high + _ROUNDING * abs(high or 1):
        return found
    return FailedCheck(
        f"constraint {name!r} is {found.value:g}, and its check says that it lies between {low:g} "
        f"and {high:g} (value_range)"
    )


def where_raised(error: Exception) -> str:
    """The innermost line of the user's own code that an error came through, in brackets."""
    if isinstance(error, AcetuneError):
        return ""  # says itself what to change
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_users_file(frame.filename):
            line = f": {frame.line}" if frame.line else ""
            return f" (line {frame.lineno} of {Path(frame.filename).name}{line})"
    return ""


class _Takes(NamedTuple):
    """How a check takes the model."""

    way: Literal["not at all", "by position", "by name", "unclear"]
    required: bool = False
    parameter: str = ""


_NOT_AT_ALL = _Takes("not at all")


def arguments_for(
    check: Callable[..., Any], name: str, model: object
) -> tuple[tuple[object, ...], dict[str, object]]:
    """What the check is called with: the model, wherever one was reported and it can take one.

    A model that is required and missing is an error. So is one that was reported where nothing
    tells whether the check takes it: called without, it would measure something else.
    """
    takes = _takes(check)
    if isinstance(model, Missing):
        if takes.required:
            raise ReportCallError(
                f"the check of {name!r} takes a model, but none was reported; call "
                "report(..., model=...)"
            )
        return (), {}
    if takes.way == "unclear":
        raise ReportCallError(
            f"the check of {name!r} has a default for its parameter {takes.parameter!r}: is that "
            "a bound value, or the place of the model? Bind values with "
            "functools.partial(check, value), and leave a parameter without a default for the model"
        )
    if takes.way == "by name":
        return (), {"model": model}
    return (model,) if takes.way == "by position" else (), {}


def takes_model(check: Callable[..., Any]) -> bool:
    """Whether a check is called with the model; one that is not sees the current step only."""
    return _takes(check).way in ("by position", "by name")


def _takes(check: Callable[..., Any]) -> _Takes:
    if isinstance(check, Constant):
        return _NOT_AT_ALL
    try:
        parameters = list(inspect.signature(check).parameters.values())
    except (TypeError, ValueError):
        return _Takes("by position", required=True)  # some built-in callables have no signature
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.default is p.empty for p in positional) or any(
        p.kind is p.VAR_POSITIONAL for p in parameters
    ):
        return _Takes("by position", required=True)
    if _has_bound_model(check):
        return _NOT_AT_ALL
    if positional:
        return _takes_optional(check, positional)
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name == "model":
            required = parameter.default is parameter.empty
            if required or parameter.default is None:
                return _Takes("by name", required)
            return _Takes("unclear", parameter="model")
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return _Takes("by name")
    return _NOT_AT_ALL


def _takes_optional(check: Callable[..., Any], positional: Sequence[inspect.Parameter]) -> _Takes:
    """A check with places for the model that all have a default."""
    first = positional[0]
    if first.default is None or not _written_in_python(check):
        return _Takes("by position")  # float() is 0.0, which binds nothing
    if any(
        p.name == "model" and p.default is None and p.kind is p.POSITIONAL_OR_KEYWORD
        for p in positional
    ):
        return _Takes("by name")
    return _Takes("unclear", parameter=first.name)


def _has_bound_model(check: Any) -> bool:
    """Whether ``functools.partial`` was given ``model=`` already."""
    while isinstance(check, functools.partial):
        if "model" in check.keywords:
            return True
        check = check.func
    return False


def _written_in_python(check: Callable[..., Any]) -> bool:
    """Whether a default of the check's parameter may be a value that somebody has bound there.

    It may in a function, a method or a ``__call__``; that of a class or of a built-in may not.
    """
    found: Any = check
    while isinstance(found, functools.partial):
        found = found.func
    found = inspect.unwrap(found)  # what a cache or a compiler has wrapped
    if inspect.isclass(found):
        return False
    if not inspect.isroutine(found):
        found = type(found).__call__
    return inspect.isfunction(found) or inspect.ismethod(found)


def _margin_is_idle(constraint: Constraint, found: Estimate | FailedCheck | None) -> bool:
    """Whether a margin that somebody has asked for has no standard error to work with."""
    if not isinstance(found, Estimate) or not constraint.margin or constraint.margin_is_auto:
        return False
    return not found.stderr and found.value not in _WHOLE


def notice_bad_checks(goals: Goals, trial: object, report: Report, say: SayOnce) -> None:
    """Say once what is wrong with the check of a constraint that came with a trial's report."""
    for constraint in goals.constraints:
        name, found = constraint.name, (report.measured or {}).get(constraint.name)
        if isinstance(found, FailedCheck):
            say(
                f"the check of {name!r} failed in trial {trial} at step {report.step}: "
                f"{found.error}; such a checkpoint counts as invalid",
                about=("failed", name),
            )
        note = note_of(found)
        if note is not None and note.get("degenerate") and constraint.holds(found):  # type: ignore
            predicted = note["predicted"]
            most = max(predicted, key=lambda label: predicted[label])
            say(
                f"{name!r} holds in trial {trial} at step {report.step} for a model that predicts "
                f"{most} for {100 * predicted[most]:.4g} % of the rows; degenerate='fail' in the "
                "check refuses such models",
                about=("one class", name),
            )
        if _margin_is_idle(constraint, found):
            say(
                f"margin_se of {name!r} has no effect: its check gives no standard error; return "
                "acetune.Estimate(value, stderr)",
                about=("margin", name),
            )
