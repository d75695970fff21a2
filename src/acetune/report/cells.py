"""Tables, cells and words: the small things that the parts of the page are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from acetune.core import words
from acetune.report.markup import Element, Node, element

LONGEST = 400  # characters of one value; what is longer is cut, and said to be

Content = Mapping[str, Any]


def section(name: str, *children: Node) -> Element:
    """A section of the page, with the heading ``name-title`` among its children."""
    return element("section", *children, id=name, aria_labelledby=f"{name}-title")


def table(columns: Sequence[Node], rows: Iterable[Sequence[Node]], label: str) -> Element:
    """A table in a frame, in which a wide one scrolls, by keyboard too."""
    head = [head_cell(name) if isinstance(name, str) else name for name in columns]
    found = element(
        "table",
        element("thead", element("tr", *head)),
        element("tbody", *[element("tr", *row) for row in rows]),
    )
    return element(
        "div", found, class_="frame", tabindex="0", role="region", aria_label=short(label)
    )


def head_cell(name: str, class_: str | None = None) -> Element:
    """The head of a column; one without a name is no head."""
    return element("th", name, scope="col", class_=class_) if name else element("td")


def trial_button(trial: int, text: str | None = None) -> Element:
    """What opens a trial; without JavaScript it is its text."""
    return element(
        "button",
        str(trial) if text is None else text,
        type="button",
        class_="link",
        data_action="trial",
        data_trial=str(trial),
        aria_label=f"Open trial {trial}" if text is None else None,
    )


def cell(value: Any) -> Element:
    """A value in a table."""
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    shown = "" if value is None else parameter(value)
    return element("td", shown, class_="number" if numeric else None)


def number_cell(value: float | None, **attributes: str) -> Element:
    """A number in a table."""
    return element("td", number(value), class_="number", **attributes)


def label(name: str) -> str:
    """The name of a column in words."""
    return short(name.replace("_", " "))


def limit_words(limit: Content) -> str:
    """A limit as people write it.

    >>> limit_words({"sense": "<=", "limit": 0.25})
    '≤ 0.25'
    """
    return f"{'≤' if limit['sense'] == '<=' else '≥'} {number(limit['limit'])}"


def limited(name: str, limit: Content | None) -> str:
    """The name of a metric, with its limit if it has one."""
    return short(name) + (f" ({limit_words(limit)})" if limit else "")


def number(value: float | None) -> str:
    """A number as the page shows it: five significant digits, never fewer than it is whole.

    >>> number(0.123456), number(40171.3), number(None)
    ('0.12346', '40,171', 'unknown')
    """
    return "unknown" if value is None else words.number(value)


def estimate(value: float | None, stderr: float | None) -> str:
    """A measured value with its standard error, in the digits of the summary in the terminal.

    >>> estimate(0.212345, 0.0123), estimate(None, None)
    ('0.2123 ± 0.012', 'failed')
    """
    return "failed" if value is None else words.estimate(value, stderr)


def parameter(value: Any) -> str:
    """The value of a parameter, which can be typed again.

    >>> parameter(0.123456), parameter(250000.0), parameter(True), parameter(None)
    ('0.12346', '250000', 'True', 'None')
    """
    return number(value).replace(",", "") if isinstance(value, float) else short(str(value))


def configuration(params: Mapping[str, Any]) -> str:
    """Parameters in one line."""
    return short(", ".join(f"{name} = {parameter(value)}" for name, value in params.items()))


def short(text: str, longest: int = LONGEST) -> str:
    """Text of a length that a page can show."""
    if len(text) <= longest:
        return text
    return f"{text[:longest]} ... ({len(text)} characters)"
