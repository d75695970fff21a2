"""Docstrings as Markdown: what they have of reStructuredText is turned before they are rendered.

Doctests become code blocks, roles such as ``:class:`~acetune.Trial` `` plain names, and ``::``
before an indented block a colon. What follows the list of parameters is put before it, since to
Griffe a section goes on to the next one. The sources stay as they are, for `help()` and doctests.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:class|func|meth|attr|mod|data):`~?(?:[\w.]*\.)?(\w+)`")
_DOCTEST = re.compile(r"(?:^|\n\n)((?:>>> .*(?:\n(?!\n).*)*))")
_UNDERLINE = re.compile(r"-{3,}$")
_IN_SECTION = re.compile(r"(?:\*{0,2}\w+(?:, \*{0,2}\w+)*:?|-{3,})$")  # an item, or the underline


def as_markdown(text: str) -> str:
    """A docstring's text for a Markdown renderer."""
    text = _ROLE.sub(r"`\1`", text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    text = sections_last(text)
    return _DOCTEST.sub(lambda found: f"\n\n```pycon\n{found[1]}\n```", text).strip()


def sections_last(text: str) -> str:
    """The text with its sections (Parameters, Attributes) after everything else.

    >>> sections_last("Do.\\n\\nParameters\\n----------\\nx:\\n    It.\\n\\nMore.").split("\\n")[:4]
    ['Do.', '', '', 'More.']
    """
    prose: list[str] = []
    sections: list[str] = []
    into = prose
    lines = text.splitlines()
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if _UNDERLINE.match(following):
            into = sections
            if sections:
                sections.append("")
        elif into is sections and line[:1].strip() and not _IN_SECTION.match(line):
            into = prose
            prose.append("")
        into.append(line)
    return "\n".join([*prose, "", *sections]).strip()


class Docstrings(griffe.Extension):
    """Applied to every object that is rendered."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called by Griffe once an object is known with its members."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
