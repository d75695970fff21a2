"""Calling the checks of constraints: in order, timed, and never trusted to work."""

from __future__ import annotations

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from acetune.core.errors import AcetuneError, ReportCallError
from acetune.core.goals import Constraint, Estimate, FailedCheck, Goals, as_measurement


class Missing:
    """Stands for a model that was not given; None is a model like any other."""

    def __repr__(self) -> str:
        return "no model"


MISSING = Missing()
_WHOLE = (0.0, 1.0)  # a share of none or of all has a standard error of 0
# whose lines nobody has to mend: Python's own, what is installed, and this package
_NOT_THEIRS = tuple(
    f"{path}{os.sep}"
    for path in (
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        Path(__file__).parent,
    )
)


class RaisedCheck(FailedCheck):
    """A check that raised: its own fault, where NaN or infinity may be the model's."""

    __slots__ = ()


class Constant:
    """A constraint value given as it is."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __call__(self) -> object:
        """The value."""
        return self._value


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
) -> tuple[dict[str, Estimate | FailedCheck], dict[str, float]]:
    """Call the checks in the order declared. After one has failed the rest are not called.

    What ``measuring`` gives surrounds each call, outside of its time and timeout.

    With an ``order`` they are called in that one, and those after a violated or failed one are
    left out, but for values that are given.

    Where all hold and the checkpoint would be the ``best``, those that ask for it are measured once
    more, and what is found then counts: of many noisy measurements the luckiest would win.
    """
    measured: dict[str, Estimate | FailedCheck] = {}
    costs: dict[str, float] = {}
    failed = ""

    def measure(constraint: Constraint) -> None:
        name = constraint.name
        with measuring(checks[name]):
            if constraint.timeout_s is not None:
                checking(name)
            began = clock()
            measured[name] = call_check(checks[name], name, model)
            costs[name] = costs.get(name, 0.0) + clock() - began
            if constraint.timeout_s is not None:
                checking(None)

    constraints = {constraint.name: constraint for constraint in goals.constraints}
    names = list(constraints)
    if order is not None:  # a value that is given costs nothing, and is never left out
        names = sorted(order, key=lambda name: not isinstance(checks[name], Constant))
    for name in names:
        given = isinstance(checks[name], Constant)
        if order is not None and not given and goals.violated(measured):
            break
        if order is None and failed:
            measured[name] = FailedCheck(f"not evaluated, because {failed!r} failed")
            continue
        measure(constraints[name])
        if isinstance(measured[name], FailedCheck):
            failed = name
    if best and goals.judge(measured)[0]:
        for constraint in goals.constraints:
            if getattr(checks[constraint.name], "measures_again", False):
                measure(constraint)
                if order is not None and goals.violated(measured):
                    break
    return measured, costs


def call_check(check: Callable[..., Any], name: str, model: object) -> Estimate | FailedCheck:
    """One check; whatever it raises makes it a failed one."""
    arguments = [model] if require_model(check, name, model) else []
    try:
        return as_measurement(check(*arguments), f"constraint {name!r}")
    except Exception as error:
        return RaisedCheck(f"{type(error).__name__}: {error}{place_of(error)}")


def place_of(error: Exception) -> str:
    """The innermost line of the user's own code that an error came through, in brackets."""
    if isinstance(error, AcetuneError):
        return ""  # says itself what to change
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_NOT_THEIRS):
            line = f": {frame.line}" if frame.line else ""
            return f" (line {frame.lineno} of {Path(frame.filename).name}{line})"
    return ""


def require_model(check: Callable[..., Any], name: str, model: object) -> bool:
    """Whether the check takes a model; one that is missing then is an error."""
    takes = takes_model(check)
    if takes and isinstance(model, Missing):
        raise ReportCallError(
            f"the check of {name!r} takes a model, but none was reported; call "
            "report(..., model=...)"
        )
    return takes


def takes_model(check: Callable[..., Any]) -> bool:
    """Whether a check has a parameter for the model; without one it sees the current step only."""
    if isinstance(check, Constant):
        return False
    try:
        parameters = inspect.signature(check).parameters.values()
    except (TypeError, ValueError):
        return True  # some built-in callables have no signature
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    # a parameter with a default is a bound value, as in `lambda m=model: eod(m)`
    return any(
        p.kind is p.VAR_POSITIONAL or (p.kind in positional and p.default is p.empty)
        for p in parameters
    )


def complaints(
    goals: Goals, measured: Mapping[str, Estimate | FailedCheck] | None, where: str
) -> Iterator[tuple[tuple[str, str], str]]:
    """What is wrong with the checks of a report: what about, to say it once, and in words."""
    for constraint in goals.constraints if measured else ():
        name, found = constraint.name, (measured or {}).get(constraint.name)
        if found is None:
            continue
        if isinstance(found, FailedCheck):
            text = f"the check of {name!r} failed in {where}: {found.error}; such a checkpoint "
            yield ("failed", name), text + "counts as invalid"
        elif constraint.margin_se and not found.stderr and found.value not in _WHOLE:
            text = (
                f"margin_se of {name!r} has no effect: its check gives no standard error; return "
            )
            yield ("margin", name), text + "acetune.Estimate(value, stderr)"
