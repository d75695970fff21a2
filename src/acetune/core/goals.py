"""What is wanted: one objective, and the constraints a model must keep to qualify.

Inside acetune everything is minimised and every constraint reads ``g <= tau``. Signs are flipped
here, once; whatever people see is in their own units.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from acetune.core import formatting as words
from acetune.core.did_you_mean import refuse_unknown
from acetune.core.errors import GoalError, ReportError
from acetune.core.numbers import as_dict, as_number, is_number, quoted

Mode: TypeAlias = Literal["min", "max"]

_COMPARED = ", which acetune compares with the limit"
LEFT_OUT = 1.0  # the scaled violation that a constraint counts with which a check left out


class Estimate(NamedTuple):
    """A measured value with its standard error.

    >>> Estimate(0.24, stderr=0.02)
    Estimate(value=0.24, stderr=0.02)
    """

    value: float
    stderr: float = 0.0


_new = tuple.__new__  # of an Estimate: half the time of calling the class


class Noted(Estimate):
    """An estimate with what else its check says of the model: plain data, for the study file."""

    note: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        """As the estimate it is."""
        return f"Estimate(value={self.value!r}, stderr={self.stderr!r})"


class FailedCheck(NamedTuple):
    """A check that gave no usable number: it raised, timed out or returned NaN or infinity."""

    error: str


def as_measurement(value: object, what: str) -> Estimate | FailedCheck:
    """Normalise what a check returned. Anything that is not a finite number is a failed check."""
    if isinstance(value, FailedCheck):
        return value if isinstance(value.error, str) else FailedCheck(quoted(value.error))
    stderr = 0.0
    if isinstance(value, tuple) and len(value) == 2:
        if hasattr(value, "_fields") and not isinstance(value, Estimate):
            raise ReportError(
                f"{what} must be a number, got {quoted(value)}: which of both is the value? Return "
                f"one of them, or acetune.Estimate(value, stderr)"
            )
        stderr = as_number(value[1], f"standard error of {what}")
        number = as_number(value[0], what, _COMPARED)
    else:
        number = as_number(value, what, _COMPARED)
    if not math.isfinite(number):
        return FailedCheck(f"{what} is {number}")
    if not (math.isfinite(stderr) and stderr >= 0.0):
        return FailedCheck(f"standard error of {what} is {stderr}")
    if isinstance(value, Noted) and value.note is not None:
        return with_note(Estimate(number, stderr), value.note)
    return Estimate(number, stderr)


def with_note(found: Estimate, note: Mapping[str, Any] | None) -> Estimate:
    """The estimate, with a note if there is one.

    >>> with_note(Estimate(0.2), {"predicted": {"0": 1.0}}) == Estimate(0.2)
    True
    """
    if note is None:
        return found
    noted = Noted(*found)
    noted.note = dict(note)
    return noted


def note_of(found: object) -> Mapping[str, Any] | None:
    """What else a check has said of the model, if anything."""
    return found.note if isinstance(found, Noted) else None


@dataclass(frozen=True, slots=True)
class Objective:
    """The metric to optimise.

    >>> auc = Objective("auc", "max")
    >>> auc.loss(0.8), auc.value(-0.8)
    (-0.8, 0.8)
    >>> auc.loss(float("nan"))      # not a finite number: ranks last, never best
    inf
    """

    name: str
    mode: Mode = "min"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise GoalError(f"objective must be the name of a metric, got {quoted(self.name)}")
        _require_whole_text("objective", self.name)
        if not isinstance(self.mode, str) or self.mode not in ("min", "max"):
            hint = {"mi": "; did you mean 'min'?", "ma": "; did you mean 'max'?"}
            near = hint.get(self.mode[:2].lower(), "") if isinstance(self.mode, str) else ""
            raise GoalError(f"mode must be 'min' or 'max', got {quoted(self.mode)}{near}")

    def loss(self, value: float) -> float:
        """``value`` with its sign such that smaller is better; infinity if it is not finite."""
        if not math.isfinite(value):
            return math.inf
        return -value if self.mode == "max" else value

    def value(self, loss: float) -> float:
        """The inverse of :meth:`loss`, in the user's own units."""
        return -loss if self.mode == "max" else loss


class Margin(float):
    """A number of standard errors that nobody has typed: left to its default, or to acetune.

    >>> Margin(2.5, "auto") + 1, Margin(2.5, "auto").origin
    (3.5, 'auto')
    """

    origin: Literal["default", "auto"]

    def __new__(cls, value: float, origin: Literal["default", "auto"] = "default") -> Self:
        """The number, and where it comes from."""
        made = super().__new__(cls, value)
        made.origin = origin
        return made


DEFAULT_MARGIN = Margin(0.0)
_UNKNOWN_YET = "auto"

# what other tools call the arguments of a constraint
_OTHER_NAMES = {
    **dict.fromkeys(("max", "maximum", "le", "limit", "threshold"), "upper=0.1"),
    **dict.fromkeys(("min", "minimum", "ge"), "lower=0.1"),
    **dict.fromkeys(("function", "fn", "func", "metric"), "check=..."),
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """A limit that a model must keep, and how to check it.

    Parameters
    ----------
    name:
        Name of the constrained metric.
    upper, lower:
        The limit: exactly one of them. The limit itself is allowed.
    check:
        Called with what ``report(model=...)`` was given; returns a number or an
        :class:`Estimate` of what was measured, not whether the limit holds. May take no
        parameter; then only the current step can be checked.
        Bind values with ``functools.partial``, not as defaults of parameters.
    margin_se:
        A check holds when value plus this many standard errors is within the limit.
        0 takes the value as it is. ``"auto"``: the distance from the limit at which a certificate
        becomes likely, for :func:`acetune.tune` with ``confirm``, where it is the default.
    scale:
        What a violation is divided by when several are added up; ``abs(limit)`` by default, or 1
        where the limit is 0.
    timeout_s:
        A check that takes longer is a failed check and ends its trial.
    on:
        ``"model"`` (default), or ``"config"``: the check takes the configuration (a dict) and is
        called before any training; a configuration that violates it is never trained.
    exact:
        The value is no estimate (a size, a price, a rule): it is compared with the limit as it is,
        also for a certificate. Checks of :mod:`acetune.constraints.size` are known to be exact.

    >>> eod = Constraint("eod", upper=0.25, margin_se=1.0)
    >>> eod.holds(Estimate(0.24, 0.005)), eod.holds(Estimate(0.24, 0.02))
    (True, False)
    >>> round(eod.violation(Estimate(0.30, 0.0)), 3)      # relative to the limit
    0.2
    """

    name: str
    upper: float | None = None
    lower: float | None = None
    check: Callable[..., Any] | None = field(default=None, compare=False)
    margin_se: float | Literal["auto"] = DEFAULT_MARGIN
    scale: float | None = None
    timeout_s: float | None = field(default=None, compare=False)
    on: Literal["model", "config"] = "model"
    exact: bool = False
    __signature__: ClassVar[inspect.Signature]  # for editors and help(): not that of __new__

    def __new__(cls, *_: object, **given: object) -> Self:
        """A constraint whose error about an unknown argument says which one was meant."""
        refuse_unknown(cls.__name__, given, [known.name for known in fields(cls)], _OTHER_NAMES)
        return object.__new__(cls)  # the class that super() would name is the one without slots

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise GoalError(f"a constraint needs a name, got {quoted(self.name)}")
        _require_whole_text("a constraint", self.name)
        if (self.upper is None) == (self.lower is None):
            hint = (
                f"a limit is what makes it one, as in Constraint({self.name!r}, upper=0.1)"
                if self.upper is None
                else "for a band declare two constraints"
            )
            raise GoalError(
                f"constraint {self.name!r}: give exactly one of upper and lower, got "
                f"upper={quoted(self.upper)}, lower={quoted(self.lower)}; {hint}"
            )
        self._require_finite("limit", self.limit)
        if not isinstance(self.margin_se, str) or self.margin_se != _UNKNOWN_YET:
            self._require_finite("margin_se", self.margin_se, " or 'auto'")
            if self.margin < 0:
                raise GoalError(
                    f"constraint {self.name!r}: margin_se must be >= 0, got {self.margin_se}"
                )
        if not isinstance(self.exact, bool):
            raise GoalError(
                f"constraint {self.name!r}: exact must be True or False, got {quoted(self.exact)}"
            )
        for what, positive in (("scale", self.scale), ("timeout_s", self.timeout_s)):
            if positive is None:
                continue
            self._require_finite(what, positive)
            if positive <= 0:
                raise GoalError(f"constraint {self.name!r}: {what} must be > 0, got {positive}")
        if self.check is not None and not callable(self.check):
            raise GoalError(
                f"constraint {self.name!r}: check must be callable, got {quoted(self.check)}"
            )
        # a check that knows what its values mean may have something to say about the limit
        require_limit = getattr(self.check, "require_limit", None)
        if callable(require_limit):
            require_limit(self)
        if not isinstance(self.on, str) or self.on not in ("model", "config"):
            raise GoalError(
                f"constraint {self.name!r}: on must be 'model' or 'config', got {quoted(self.on)}"
            )
        if self.on == "config" and self.check is None:
            raise GoalError(
                f"constraint {self.name!r} is on the configuration and needs a check, "
                "for example check=lambda params: params['layers'] * params['width']"
            )

    def _require_finite(self, what: str, number: object, more: str = "") -> None:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise GoalError(
                f"constraint {self.name!r}: {what} must be a number{more}, got {quoted(number)}"
            )
        if not is_number(number):
            raise GoalError(
                f"constraint {self.name!r}: {what} must be finite, got {quoted(number)}"
            )

    @property
    def limit(self) -> float:
        """The limit in the user's units."""
        limit = self.upper if self.lower is None else self.lower
        assert limit is not None  # exactly one is set, see __post_init__
        return limit

    @property
    def sense(self) -> Literal["<=", ">="]:
        """On which side of the limit a value has to lie."""
        return "<=" if self.lower is None else ">="

    @property
    def margin(self) -> float:
        """``margin_se`` as a number: 0 where it is still to be chosen."""
        return 0.0 if self.margin_se == _UNKNOWN_YET else float(self.margin_se)

    @property
    def margin_is_auto(self) -> bool:
        """Whether the margin was chosen by acetune, or is to be."""
        auto = isinstance(self.margin_se, Margin) and self.margin_se.origin == "auto"
        return auto or self.margin_se == _UNKNOWN_YET

    @property
    def margin_is_default(self) -> bool:
        """Whether nobody has said anything about the margin."""
        return isinstance(self.margin_se, Margin) and self.margin_se.origin == "default"

    @property
    def condition(self) -> Constraint:
        """What an answer must keep: without a margin that acetune chose, which is an aim."""
        return replace(self, margin_se=0.0) if self.margin_is_auto else self

    @property
    def compared_directly(self) -> bool:
        """Whether a value is no estimate: declared so, or by its check."""
        check: Any = self.check
        while isinstance(check, functools.partial):  # as parameters with trainable_only bound
            check = check.func
        return self.exact or self.on == "config" or getattr(check, "exact", False) is True

    def excess(self, measured: Estimate) -> float:
        """How far the measured value, margin included, lies beyond the limit (<= 0: it holds)."""
        value, stderr = measured
        margin = self.margin * stderr if stderr else 0.0  # nearly always there is none
        if self.lower is not None:
            return self.lower - (value - margin)
        assert self.upper is not None  # exactly one is set, see __post_init__
        return value + margin - self.upper

    def relative_excess(self, measured: Estimate) -> float:
        """The same in units of the limit, or of the constraint's own scale."""
        return self.excess(measured) / self._unit

    @property
    def _unit(self) -> float:
        return self.scale if self.scale is not None else abs(self.limit) or 1.0

    def holds(self, measured: Estimate | FailedCheck) -> bool:
        """Whether the measurement keeps the limit; a failed check never does."""
        return not isinstance(measured, FailedCheck) and self.excess(measured) <= 0.0

    def keeps(self, measured: Estimate | FailedCheck) -> bool:
        """Whether it holds but for a margin that acetune has chosen: a bold candidate does."""
        return self.condition.holds(measured)

    def room(self, measured: Estimate) -> float:
        """How far within its limit a value lies, in standard errors; relative without one."""
        limit = self.without_margin()
        if measured.stderr > 0:
            return -limit.excess(measured) / measured.stderr
        return -limit.relative_excess(measured)

    def violation(self, measured: Estimate | FailedCheck) -> float:
        """The scaled amount beyond the limit: 0 where it holds, infinite for a failed check."""
        if isinstance(measured, FailedCheck):
            return math.inf
        return max(0.0, self.relative_excess(measured))

    def with_limit(self, limit: float) -> Constraint:
        """The same constraint at another limit."""
        if self.lower is None:
            return replace(self, upper=limit)
        return replace(self, lower=limit)

    def with_margin(self, margin_se: float | None) -> Constraint:
        """The same constraint with another margin, chosen by whom its own was; None: its own."""
        if margin_se is None or margin_se == self.margin:
            return self
        if isinstance(self.margin_se, Margin):
            margin_se = Margin(margin_se, self.margin_se.origin)
        return replace(self, margin_se=margin_se)

    def without_margin(self) -> Constraint:
        """The limit as it is: what fresh data, which owes nothing to the search, is held to."""
        return replace(self, margin_se=0.0, check=None)

    def describe(self) -> str:
        """The constraint as people write it, ``eod <= 0.25``, with its margin if it has one."""
        margin = f" with a margin of {self.margin:.3g} s.e." if self.margin else ""
        if self.margin and self.margin_is_auto:  # an aim of the search, and no condition
            margin = f", aiming {self.margin:.3g} s.e. within"
        return f"{self.name} {words.limit(self.sense, self.limit)}{margin}"


def _require_whole_text(what: str, name: str) -> None:
    if not words.is_whole_text(name):
        raise GoalError(
            f"{what} is named {quoted(name)}, with half a character (a lone surrogate), which no "
            "file can hold; give another name"
        )


_own = inspect.signature(Constraint.__init__)
Constraint.__signature__ = _own.replace(parameters=list(_own.parameters.values())[1:])


@dataclass(frozen=True, slots=True)
class Goals:
    """An objective with its constraints: what a study is about.

    >>> goals = Goals(Objective("auc", "max"), (Constraint("eod", upper=0.25),))
    >>> goals.judge({"eod": Estimate(0.5)})
    (False, 1.0)
    """

    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    # with the name and the unit of each: every check of a study is judged by them
    _limits: tuple[tuple[str, float, Constraint], ...] = field(
        init=False, repr=False, compare=False
    )
    _names: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        seen = {self.objective.name}
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise GoalError(f"constraints must be Constraint objects, got {quoted(constraint)}")
            if constraint.on == "config":
                raise GoalError(
                    f"constraint {constraint.name!r} is on the configuration; only "
                    "tune() takes those"
                )
            if constraint.margin_se == _UNKNOWN_YET:
                raise GoalError(
                    f"constraint {constraint.name!r}: margin_se='auto' aims for a certificate and "
                    "needs tune(confirm=...); give a number here, such as margin_se=1"
                )
            if constraint.name in seen:
                raise GoalError(
                    f"the name {constraint.name!r} is used twice among objective and "
                    "constraints; give each a name of its own"
                )
            seen.add(constraint.name)
        limits = tuple((c.name, c._unit, c) for c in self.constraints)
        object.__setattr__(self, "_limits", limits)
        object.__setattr__(self, "_names", tuple(c.name for c in self.constraints))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the constraints."""
        return self._names

    def measurements(self, values: Mapping[str, object]) -> dict[str, Estimate | FailedCheck]:
        """Values by name, normalised; an unknown name is an error, and so is a missing one.

        Only a check that found a limit broken may leave others out.
        """
        measured: dict[str, Estimate | FailedCheck] = {}
        if type(values) is not dict:
            values = as_dict(values, "constraints")
        for name in self._names:
            if name not in values:
                continue
            value = values[name]
            if type(value) is float and math.isfinite(value):  # nearly always
                measured[name] = _new(Estimate, (value, 0.0))
            else:
                measured[name] = as_measurement(value, f"constraint {name!r}")
        if len(values) > len(measured):
            known = [constraint.name for constraint in self.constraints]
            unknown = [name for name in values if name not in known]
            raise ReportError(f"unknown constraint {quoted(unknown[0])}; this study has {known}")
        if len(measured) < len(self._names) and not self.violated(measured):
            missing = [c.name for c in self.constraints if c.name not in measured]
            raise ReportError(
                "a check covers all constraints, unless one of them is broken; "
                f"{missing[0]!r} is missing, got {quoted(list(values))}"
            )
        return measured

    def judge(self, measured: Mapping[str, Estimate | FailedCheck]) -> tuple[bool, float]:
        """Whether every constraint holds, and the sum of the scaled violations.

        A constraint that was left out counts as a violation of 1: a checkpoint that is known to
        keep it comes nearer than one that breaks the others by as much.
        """
        valid, violation, _ = self.judge_each(measured)
        return valid, violation

    def judge_each(
        self, measured: Mapping[str, Estimate | FailedCheck]
    ) -> tuple[bool, float, tuple[float, ...]]:
        """The same, with the :meth:`relative_excesses`: in one pass, for every check comes here."""
        if len(self._limits) == 1:  # nearly always
            ((name, unit, constraint),) = self._limits
            only = measured.get(name)
            if type(only) is Estimate:
                excess = constraint.excess(only)
                relative = excess / unit
                holds = excess <= 0.0
                return holds, 0.0 if holds else max(0.0, relative), (relative,)
        valid, violation = True, 0.0
        beyond: list[float] = []
        for name, unit, constraint in self._limits:
            result = measured.get(name)
            if isinstance(result, Estimate):
                excess = constraint.excess(result)
                relative = excess / unit
                if not excess <= 0.0:
                    valid = False
                    violation += max(0.0, relative)
            else:
                relative, valid = math.nan, False
                violation += LEFT_OUT if result is None else math.inf
            beyond.append(relative)
        return valid, violation, tuple(beyond)

    def with_margins(self, margins: Mapping[str, float] | None) -> Goals:
        """The same goals by the margins of another moment: how a check was judged then."""
        if not margins or all(margins.get(c.name, c.margin) == c.margin for c in self.constraints):
            return self
        return replace(
            self,
            constraints=tuple(c.with_margin(margins.get(c.name)) for c in self.constraints),
        )

    @property
    def conditions(self) -> Goals:
        """What an answer must keep: without margins that acetune chose, which are aims."""
        return replace(self, constraints=tuple(c.condition for c in self.constraints))

    def keeps(self, measured: Mapping[str, Estimate | FailedCheck]) -> bool:
        """Whether every constraint was measured and holds, but for margins that acetune chose."""
        found = ((c, measured.get(c.name)) for c in self.constraints)
        return all(m is not None and c.keeps(m) for c, m in found)

    def safety(self, measured: Mapping[str, Estimate | FailedCheck]) -> float:
        """The least room within a limit, of those whose values are estimates."""
        found = ((c, measured.get(c.name)) for c in self.constraints if not c.compared_directly)
        rooms = [c.room(m) if isinstance(m, Estimate) else -math.inf for c, m in found]
        return min(rooms, default=math.inf)

    def violation(
        self, measured: Mapping[str, Estimate | FailedCheck], left_out: float = LEFT_OUT
    ) -> float:
        """The sum of the scaled violations, with what a constraint that was left out counts for."""
        found = ((c, measured.get(c.name)) for c in self.constraints)
        return sum((left_out if m is None else c.violation(m) for c, m in found), 0.0)

    def relative_excesses(
        self, measured: Mapping[str, Estimate | FailedCheck]
    ) -> tuple[float, ...]:
        """How far beyond each limit a checkpoint lies; NaN where nothing was measured."""
        found = ((c, measured.get(c.name)) for c in self.constraints)
        return tuple(
            c.relative_excess(m) if isinstance(m, Estimate) else math.nan for c, m in found
        )

    def violated(self, measured: Mapping[str, Estimate | FailedCheck]) -> tuple[str, ...]:
        """The names of the constraints that were measured and do not hold."""
        return tuple(
            c.name for c in self.constraints if c.name in measured and not c.holds(measured[c.name])
        )


def constraint_list(constraints: Sequence[Constraint]) -> tuple[Constraint, ...]:
    """The constraints that somebody has given: a list, even of one."""
    if isinstance(constraints, Constraint):
        raise GoalError(
            f"constraints must be a list, got {constraints!r}; write constraints=[Constraint(...)]"
        )
    if not isinstance(constraints, Iterable):
        raise GoalError(
            f"constraints must be a list such as [Constraint(...)], got {quoted(constraints)}; "
            "leave it out where there are no limits"
        )
    return tuple(constraints)


def split_constraints(
    constraints: Sequence[Constraint],
) -> tuple[tuple[Constraint, ...], tuple[Constraint, ...]]:
    """Constraints on the model, and those on the configuration alone."""
    for constraint in constraints:
        if not isinstance(constraint, Constraint):
            raise GoalError(f"constraints must be Constraint objects, got {quoted(constraint)}")
    on_model = tuple(c for c in constraints if c.on == "model")
    on_config = tuple(c for c in constraints if c.on == "config")
    return on_model, on_config


def goals_to_json(goals: Goals, on_config: Sequence[Constraint] = ()) -> tuple[str, str]:
    """Objective and all constraints as the study file keeps them."""
    objective = {"name": goals.objective.name, "mode": goals.objective.mode}
    constraints = [
        {
            "name": c.name,
            "upper" if c.lower is None else "lower": float(c.limit),
            "margin_se": float(c.margin),
            "scale": None if c.scale is None else float(c.scale),
            "on": c.on,
            # left out where they say nothing: files of earlier versions have none
            **({"auto_margin": True} if c.margin_is_auto else {}),
            **({"exact": True} if c.exact else {}),
        }
        for c in (*goals.constraints, *on_config)
    ]
    return json.dumps(objective), json.dumps(constraints)


def goals_from_json(objective: str, constraints: str) -> Goals:
    """The inverse of :func:`goals_to_json`; the checks themselves are not in the file."""
    return Goals(Objective(**json.loads(objective)), limits_from_json(json.loads(constraints)))


def limits_from_json(constraints: Sequence[Mapping[str, Any]]) -> tuple[Constraint, ...]:
    """Those on the model, as the study file keeps them."""
    return tuple(_constraint(dict(c)) for c in constraints if c["on"] == "model")


def _constraint(described: dict[str, Any]) -> Constraint:
    if described.pop("auto_margin", False):
        described["margin_se"] = Margin(described["margin_se"], "auto")
    return Constraint(**described)
