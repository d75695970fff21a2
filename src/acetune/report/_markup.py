"""Elements of the page as plain data: written as HTML here, built as nodes by the page's script.

Both sides treat every string as text, so that a name or a value cannot become an element. The
same element is what a file shows without JavaScript and what a live page puts in its place later.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from acetune.core import formatting as words

Node: TypeAlias = "str | Element"
Content = Mapping[str, Any]

LONGEST = 400  # characters of one value; what is longer is cut, and said to be

_TURNING = re.compile(f"[{words.TURNING}]")


class Element(NamedTuple):
    """One element; ``json.dumps`` makes ``[tag, attributes, children]`` of it."""

    tag: str
    attributes: dict[str, str]
    children: list[Node]


def element(tag: str, *children: Node | None, **attributes: str | None) -> Element:
    """An element; a trailing underscore in a name is dropped, others become hyphens.

    >>> to_html(element("p", "a < b", class_="lead", data_kind="x"))
    '<p class="lead" data-kind="x">a &lt; b</p>'
    """
    named = {
        name.rstrip("_").replace("_", "-"): value
        for name, value in attributes.items()
        if value is not None
    }
    return Element(tag, named, [child for child in children if child is not None])


def to_html(node: Node) -> str:
    """The element and all below it as HTML, every string escaped.

    >>> to_html("<script>")
    '&lt;script&gt;'
    """
    if isinstance(node, str):
        return html.escape(clean(node), quote=False)
    attributes = "".join(
        f' {name}="{html.escape(clean(value))}"' for name, value in node.attributes.items()
    )
    inside = "".join(map(to_html, node.children))
    return f"<{node.tag}{attributes}>{inside}</{node.tag}>"


def clean(text: str) -> str:
    """Text that can stand in an HTML file: no NUL, no half of a surrogate pair, nothing turned."""
    text = _TURNING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


# -- tables and cells ------------------------------------------------------------------------------


def section(name: str, *children: Node | None) -> Element:
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


def titled_table(title: str, columns: Sequence[Node], rows: Iterable[Sequence[Node]]) -> Element:
    """A table below its title."""
    return element("div", element("h3", title), table(columns, rows, title))


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


def number_cell(value: float | str | None, **attributes: str) -> Element:
    """A number in a table, or what stands for it."""
    text = value if isinstance(value, str) else number(value)
    return element("td", text, class_="number", **attributes)


def row_head(*children: Node) -> Element:
    """The head of a row."""
    return element("th", *children, scope="row")


def label(name: str) -> str:
    """The name of a column in words.

    >>> label("training_s"), label("best_objective")
    ('training (s)', 'best objective')
    """
    unit = " (s)" if name.endswith("_s") else ""
    return short(name.removesuffix("_s").replace("_", " ") + unit)


def limited(name: str, limit: Content | None) -> str:
    """The name of a metric, with its limit if it has one.

    >>> limited("gap", {"sense": "<=", "limit": 0.25}), limited("loss", None)
    ('gap (≤ 0.25)', 'loss')
    """
    if limit is None:
        return short(name)
    return f"{short(name)} ({words.limit(limit['sense'], limit['limit'], in_print=True)})"


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
