"""Elements of the page as plain data: written as HTML here, built as nodes by the page's script.

Both sides treat every string as text, so that a name or a value cannot become an element. The
same element is what a file shows without JavaScript and what a live page puts in its place later.
"""

from __future__ import annotations

import html
from typing import NamedTuple, TypeAlias

Node: TypeAlias = "str | Element"


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
    """Text that can stand in an HTML file: no NUL, no half of a surrogate pair."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
