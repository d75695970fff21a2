"""Numbers as people read them: the same in the summary, in a terminal and on a page."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

_GROUPED = 1e4  # from here on digits are grouped
_POWERS = 1e9  # from here on nobody counts them
#: marks of direction in Unicode, which can make a line read as another one
TURNING = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_ACTING = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff{TURNING}]")

_HALVES = re.compile("[\ud800-\udfff]")


def number(value: float, digits: int = 5) -> str:
    """A number with at most so many significant digits, but never fewer than it is whole.

    >>> number(0.123456), number(1234.56), number(40171.3), number(5e7), number(2.5e12)
    ('0.12346', '1234.6', '40,171', '50,000,000', '2.5e+12')
    >>> number(1234.5, digits=2), number(float("nan")), number(-0.0)
    ('1,234', 'nan', '0')
    """
    if value == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if min(_GROUPED, 10.0**digits) <= abs(float(text)) < _POWERS:
        return f"{value:,.0f}"
    return text


def estimate(value: float, stderr: float | None) -> str:
    """A measured value, with its standard error where it has one.

    >>> estimate(0.212345, 0.0123), estimate(40171, 0.0)
    ('0.2123 ± 0.012', '40,171')
    """
    return number(value, 4) + (f" ± {number(stderr, 2)}" if stderr else "")


def limit(sense: str, value: float, *, in_print: bool = False) -> str:
    """A limit as people write it, or with the sign of print.

    >>> limit("<=", 0.25), limit(">=", 40171.3, in_print=True)
    ('<= 0.25', '≥ 40,171')
    """
    sign = {"<=": "≤", ">=": "≥"}[sense] if in_print else sense
    return f"{sign} {number(value, 6)}"


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> duration(45), duration(200), duration(7500)
    ('45 s', '3 min 20 s', '2 h 5 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def timing(seconds: float) -> str:
    """The same with more digits below ten seconds, for durations that are to be compared.

    >>> timing(0.0123), timing(7.25), timing(200)
    ('12.3 ms', '7.2 s', '3 min 20 s')
    """
    if 0 < seconds < 1:
        return f"{number(seconds * 1e3, 3)} ms"
    return f"{number(seconds, 2)} s" if seconds < 10 else duration(seconds)


def size(count: int) -> str:
    """Bytes as people say them.

    >>> size(512), size(2_450_000)
    ('512 B', '2.45 MB')
    """
    number = float(count)
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} GB"


def cut(text: str, longest: int, mark: str = "…") -> str:
    """Text that is at most so long; a mark says that there was more.

    >>> cut("depth", 8), cut("x" * 50, 8)
    ('depth', 'xxxxxxx…')
    """
    return text if len(text) <= longest else text[: longest - len(mark)] + mark


def harmless(text: str) -> str:
    r"""Text of unknown origin as a terminal may have it: lines and tabs, and nothing that acts.

    What would move the cursor, change colours or turn the direction of writing is written out.

    >>> harmless("red \x1b[31m, turned \u202e, half \ud800")
    'red \\x1b[31m, turned \\u202e, half \\ud800'
    """
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def is_whole_text(text: str) -> bool:
    r"""Whether a text can be written to files: half a character (a lone surrogate) cannot.

    >>> is_whole_text("auc ☃"), is_whole_text("o\udc82")
    (True, False)
    """
    return not _HALVES.search(text)


def missing_words(violation: float | None) -> str:
    """Why a check has no value of a constraint, by what the check came to.

    A failed one has an infinite violation (in JSON none); others are left out once one is broken.

    >>> missing_words(float("inf")), missing_words(1.2)
    ('failed', 'not measured')
    """
    return "failed" if violation is None or math.isinf(violation) else "not measured"


def parameters(params: Mapping[str, Any]) -> str:
    """A configuration in a line; its numbers can be typed again.

    >>> parameters({"rate": 0.123456, "rows": 250000.0, "depth": 3, "kind": "relu"})
    'rate=0.12346, rows=250000, depth=3, kind=relu'
    """
    return ", ".join(
        f"{name}={number(value).replace(',', '') if isinstance(value, float) else value}"
        for name, value in flattened(params).items()
    )


def flattened(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration without dicts inside: names are joined by dots.

    >>> flattened({"model": {"kind": "trees", "depth": 3}, "seed": 0})
    {'model.kind': 'trees', 'model.depth': 3, 'seed': 0}
    """
    if not any(isinstance(value, Mapping) for value in params.values()):
        return params
    found: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, Mapping):
            found |= {f"{name}.{inside}": v for inside, v in flattened(value).items()}
        else:
            found[name] = value
    return found


def count(n: int, what: str) -> str:
    """So many of something.

    >>> count(1, "check"), count(0, "trial"), count(48000, "report")
    ('1 check', '0 trials', '48,000 reports')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"
