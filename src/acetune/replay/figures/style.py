"""How all figures look: colours that most people can tell apart, dashes and markers beside them."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from acetune.core.errors import GoalError
from acetune.drawing.palette import COLOURS
from acetune.replay.runs import Cell

DASHES = ("solid", "6px,2px", "2px,2px", "10px,2px,2px,2px")
SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "triangle-down",
    "pentagon",
    "star",
    "hexagram",
)


class Look(NamedTuple):
    """What tells a policy from the others."""

    colour: str
    dash: str
    symbol: str

    def faint(self, alpha: float) -> str:
        """Its colour, see-through."""
        red, green, blue = (int(self.colour[i : i + 2], 16) for i in (1, 3, 5))
        return f"rgba({red},{green},{blue},{alpha:g})"


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """A look a policy, by its place: the same list gives the same looks in every figure.

    No two of the first 32 share both colour and dash.
    """
    return {
        policy: Look(
            COLOURS[i % len(COLOURS)],
            DASHES[(i + i // len(COLOURS)) % len(DASHES)],
            SYMBOLS[(i + i // len(COLOURS)) % len(SYMBOLS)],
        )
        for i, policy in enumerate(policies)
    }


def chosen(policies: Sequence[str] | None, found: Iterable[str]) -> list[str]:
    """The policies to draw: those asked for, which must be there, else all in their order."""
    there = list(dict.fromkeys(found))
    if not there:
        raise GoalError("there is nothing to draw: no runs were given")
    if policies is None:
        return there
    for policy in policies:
        if policy not in there:
            raise GoalError(f"no runs of {policy!r}; there are {', '.join(there)}")
    return list(dict.fromkeys(policies))


def cell_titles(cells: Sequence[Cell]) -> tuple[list[str], str]:
    """What tells each cell from the others, and what all of them share.

    A constraint always stays with its cell, as that is what people look for.
    """
    parts = [_parts(cell) for cell in cells]
    shared = {
        name: text
        for name, text in parts[0].items()
        if name != "constraint" and all(other[name] == text for other in parts)
    }
    titles = [
        ", ".join(text for name, text in part.items() if name not in shared) for part in parts
    ]
    return titles, ", ".join(shared.values())


def _parts(cell: Cell) -> dict[str, str]:
    cost = "costs as recorded" if cell.cost_ratio is None else f"cost ratio {cell.cost_ratio:g}"
    return {
        "constraint": _readable(cell.constraint) or "no constraint",
        "table": cell.table,
        "cost": cost,
        "budget": f"{cell.budget_s:g} s",
        "workers": f"{cell.workers} worker{'s' if cell.workers != 1 else ''}",
        "searcher": f"{cell.searcher} search",
    }


def _readable(constraint: str) -> str:
    """With signs as in print; Plotly would take other angle brackets for tags."""
    text = constraint.replace("<=", "≤").replace(">=", "≥")
    return html.escape(text, quote=False)


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 of each decade between two positive numbers; only 1 over many decades.

    >>> log_ticks(0.4, 30)
    [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]
    """
    steps = (1, 2, 5) if high / low < 1e5 else (1,)
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    # from text, as 5 * 10.0**-1 and the like are not always what people would write
    ticks = [float(f"{step}e{power}") for power in range(first, last + 1) for step in steps]
    return [tick for tick in ticks if low <= tick <= high]
