"""The dimensions of a search space: numbers between bounds, and choices among options."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal
from typing import Any, TypeAlias, TypeGuard

from acetune.core.errors import SpaceError
from acetune.core.formatting import is_whole_text
from acetune.core.numbers import is_bool

Scalar: TypeAlias = bool | int | float | str | None
_ON_GRID = 1e-8  # how far from a step a value may lie, in steps: 3 * 0.1 is no exact 0.3


@dataclass(frozen=True, slots=True)
class Float:
    """A real number between ``low`` and ``high``, both included, uniform or log-uniform.

    With a ``step`` it is one of ``low``, ``low + step``, ... up to the last that is not above
    ``high``, which becomes the upper end.
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        _require_bounds("uniform", self.low, self.high, self.log)
        if self.step is not None:
            object.__setattr__(self, "high", _last_step("uniform", self.low, self.high, self.step))

    @property
    def width(self) -> float:
        """What a value stands for: a step, or nothing but itself."""
        return 0.0 if self.step is None else float(self.step)

    @property
    def size(self) -> float:
        """How many values there are."""
        if self.step is None:
            return math.inf if self.low < self.high else 1
        return round((self.high - self.low) / self.step) + 1

    def contains(self, value: object) -> bool:
        """Whether ``value`` lies in the dimension."""
        if not _is_number(value) or not math.isfinite(value):
            return False
        if self.step is None:
            return bool(self.low <= value <= self.high)
        steps = (float(value) - self.low) / self.step
        near = abs(steps - round(steps)) < _ON_GRID * max(1.0, abs(steps))
        return near and 0 <= round(steps) < self.size

    def snap(self, value: float) -> float:
        """The value of the dimension that is nearest to a number."""
        if self.step is None:
            return min(max(float(value), float(self.low)), float(self.high))
        number = min(max(float(value), float(self.low)), float(self.high))
        steps = round((number - self.low) / self.step)
        # as people count: the third step of 0.1 is 0.3, and not 0.30000000000000004
        found = float(_exact(self.low) + steps * _exact(self.step))
        return min(max(found, float(self.low)), float(self.high))


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between ``low`` and ``high``, both included, uniform or log-uniform.

    With a ``step`` it is one of ``low``, ``low + step``, ... up to the last that is not above
    ``high``, which becomes the upper end.
    """

    low: int
    high: int
    log: bool = False
    step: int = 1

    def __post_init__(self) -> None:
        _require_bounds("randint", self.low, self.high, self.log)
        what = f"{'log' * self.log}randint({self.low!r}, {self.high!r})"
        if self.low != int(self.low) or self.high != int(self.high):
            raise SpaceError(f"{what}: bounds must be whole numbers")
        if self.step != 1 or is_bool(self.step):
            last = _last_step("randint", self.low, self.high, self.step)
            if self.step != int(self.step):
                raise SpaceError(f"{what}: step must be a whole number, got {self.step!r}")
            object.__setattr__(self, "high", int(last))

    @property
    def width(self) -> float:
        """What a value stands for: all that lie nearest to it."""
        return float(self.step)

    @property
    def size(self) -> int:
        """How many values there are."""
        return (int(self.high) - int(self.low)) // int(self.step) + 1

    def contains(self, value: object) -> bool:
        """Whether ``value`` lies in the dimension."""
        if not _is_number(value) or not self.low <= value <= self.high:
            return False
        return value == int(value) and (int(value) - int(self.low)) % int(self.step) == 0

    def snap(self, value: float) -> int:
        """The value of the dimension that is nearest to a number."""
        low, step = int(self.low), int(self.step)
        if step == 1:
            nearest = value if isinstance(value, int) else math.floor(value + 0.5)
        else:
            nearest = low + math.floor((value - low) / step + 0.5) * step
        return min(max(nearest, low), int(self.high))


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several options: plain values, or spaces of their own."""

    options: tuple[Any, ...]

    def __post_init__(self) -> None:
        if not self.options:
            raise SpaceError("choice needs at least one option, got none")
        for place, option in enumerate(self.options):
            if not isinstance(option, Mapping) and not is_scalar(option):
                raise SpaceError(
                    f"an option must be a string, a number, a bool, None, or a dict of dimensions, "
                    f"got {option!r}; give it a name and look it up in the training function"
                )
            require_whole_text("an option", option)
            if option != option:
                raise SpaceError(
                    "an option is NaN, which equals nothing, so a study could not go on with it; "
                    "use None or a name, and look it up in the training function"
                )
            if is_scalar(option) and any(same(option, other) for other in self.options[:place]):
                raise SpaceError(f"choice has the option {option!r} twice; name each option once")

    @property
    def size(self) -> int:
        """How many options there are."""
        return len(self.options)

    def contains(self, value: object) -> bool:
        """Whether ``value`` is one of the options."""
        return any(same(value, option) for option in self.options)

    def snap(self, value: Any) -> Any:
        """The option itself."""
        return value


Dimension: TypeAlias = Float | Integer | Choice


def uniform(low: float, high: float, *, step: float | None = None) -> Float:
    """A real number, uniform between ``low`` and ``high``, both included.

    With ``step`` one of ``low``, ``low + step``, ``low + 2 * step``, ... up to ``high``.
    """
    return Float(low, high, step=step)


def loguniform(low: float, high: float) -> Float:
    """A real number whose logarithm is uniform between those of ``low`` and ``high``.

    Both ends are included.
    """
    return Float(low, high, log=True)


def randint(low: int, high: int, *, step: int = 1) -> Integer:
    """A whole number, uniform from ``low`` to ``high``, both included.

    With ``step`` one of ``low``, ``low + step``, ``low + 2 * step``, ... up to ``high``.
    """
    return Integer(low, high, step=step)


def lograndint(low: int, high: int) -> Integer:
    """A whole number from ``low`` to ``high``, both included, uniform in its logarithm."""
    return Integer(low, high, log=True)


def choice(options: Sequence[Scalar | Mapping[str, Any]]) -> Choice:
    """One of ``options``; a dict among them is a space of its own, searched when it is chosen."""
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise SpaceError(f"choice takes a list of options, got {options!r}")
    return Choice(tuple(options))


def require_whole_text(what: str, value: object) -> None:
    """Refuse a text with half a character, which the study file cannot hold."""
    if isinstance(value, str) and not is_whole_text(value):
        raise SpaceError(
            f"{what} is {value!r}, with half a character (a lone surrogate), which no file can "
            "hold; give another one"
        )


def is_scalar(value: object) -> TypeGuard[Scalar]:
    """Whether a value may be an option, or fix a parameter."""
    return value is None or isinstance(value, (bool, int, float, str))


def same(value: object, other: object) -> bool:
    """Whether two values are the same option: True is not 1."""
    return type(value) is type(other) and value == other


def place_in(dimension: Dimension, value: Any) -> float:
    """Where a value lies in its dimension, between 0 and 1."""
    if isinstance(dimension, Choice):
        found = [same(value, option) for option in dimension.options]
        return (found.index(True) + 0.5) / len(found)
    low, high = edges(dimension)
    number = math.log(value) if dimension.log else float(value)
    width = high / 2 - low / 2  # halves: the widest dimension is wider than a float can be
    share = (number / 2 - low / 2) / width if width > 0 else 0.5
    return min(max(share, 0.0), 1.0)


def value_at(dimension: Dimension, share: float) -> Any:
    """The value at a place between 0 and 1: the inverse of :func:`place_in`."""
    if isinstance(dimension, Choice):
        options = dimension.options
        return options[min(int(share * len(options)), len(options) - 1)]
    low, high = edges(dimension)
    number = low * (1.0 - share) + high * share
    return dimension.snap(math.exp(number) if dimension.log else number)


def edges(dimension: Float | Integer) -> tuple[float, float]:
    """Between what a dimension is drawn: each value stands for all numbers nearest to it.

    Of a logarithmic dimension these are logarithms.
    """
    half = dimension.width / 2
    low, high = float(dimension.low), float(dimension.high)
    if not dimension.log:
        return low - half, high + half
    return math.log(max(low - half, low / 2)), math.log(high + half)


def described(dimension: Dimension) -> dict[str, Any]:
    """A dimension as plain data: what the study file keeps and compares. Not of sub-spaces."""
    if isinstance(dimension, Choice):
        return {"choice": list(dimension.options)}
    kind, as_kind = ("float", float) if isinstance(dimension, Float) else ("integer", int)
    bounds = [as_kind(dimension.low), as_kind(dimension.high)]
    found: dict[str, Any] = {kind: bounds, "log": dimension.log}
    if dimension.step is not None and (kind == "float" or dimension.step != 1):
        found["step"] = as_kind(dimension.step)
    return found


def dimension_of(description: Mapping[str, Any]) -> Dimension | None:
    """The inverse of :func:`described`; None if it describes no dimension."""
    log = bool(description.get("log"))
    if "choice" in description:
        return choice(description["choice"])
    if "float" in description:
        low, high = description["float"]
        return Float(low, high, log, description.get("step"))
    if "integer" in description:
        low, high = description["integer"]
        return Integer(low, high, log, description.get("step", 1))
    return None


def _exact(number: float) -> Decimal:
    """A number as it is written."""
    return Decimal(repr(number if isinstance(number, int) else float(number)))


def _last_step(kind: str, low: float, high: float, step: object) -> float:
    """The upper end of a dimension with steps: the last step that is not above ``high``."""
    what = f"{kind}({low!r}, {high!r}, step={step!r})"
    if not _is_number(step) or not math.isfinite(step) or step <= 0:
        raise SpaceError(f"{what}: step must be a finite number above 0, got {step!r}")
    first, width = _exact(low), _exact(step)
    steps = (_exact(high) - first) / width
    # a bound that was rounded to a float may lie just below its step
    steps = (steps + Decimal(repr(_ON_GRID))).to_integral_value(ROUND_FLOOR)
    if low < high and not steps:
        raise SpaceError(
            f"{what}: a step of {step!r} leads beyond {high!r}, so {low!r} is the only value; give "
            f"a smaller step, or {low!r} itself in place of the dimension"
        )
    return min(float(first + steps * width), float(high))


def _is_number(value: object) -> TypeGuard[float]:
    # NumPy's numbers count; bools do not
    return not isinstance(value, str) and not is_bool(value) and hasattr(value, "__float__")


def _require_bounds(kind: str, low: float, high: float, log: bool) -> None:
    what = f"log{kind}" if log else kind  # as it was written: the name is not known here
    for bound in (low, high):
        if not _is_number(bound) or not math.isfinite(bound):
            raise SpaceError(
                f"{what}({low!r}, {high!r}): bounds must be finite numbers, got {bound!r}"
            )
    if low > high:
        raise SpaceError(
            f"{what}({low!r}, {high!r}): the lower bound {low!r} is above the upper bound "
            f"{high!r}; swap them"
        )
    if log and low <= 0:
        raise SpaceError(
            f"{what}({low!r}, {high!r}): a logarithm needs a lower bound above 0, got {low!r}; "
            f"take a small one, or {what.removeprefix('log')}({low!r}, {high!r})"
        )
