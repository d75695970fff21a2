"""How all figures look, and small multiples laid out in pixels.

Colours are those that most people can tell apart, with dashes and markers beside them. The layout
is ours because Plotly's own grids know one spacing only.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from acetune.core.errors import GoalError
from acetune.core.formatting import count
from acetune.replay.runs import Cell
from acetune.report.palette import COLOURS, FONT, GRID, LINE, QUIET, TEXT

_GAP = 12  # pixels between the stacked parts of a panel
_EDGE = 16  # from the left edge to the title
_LEGEND_ROW = 20
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
        "workers": count(cell.workers, "worker"),
        "searcher": f"{cell.searcher} search",
    }


def _readable(constraint: str) -> str:
    """With signs as in print; Plotly would take other angle brackets for tags."""
    text = constraint.replace("<=", "≤").replace(">=", "≥")
    return html.escape(text, quote=False)


class Panels:
    """Gathers a figure with panels in columns, each a stack of parts that share their x axis.

    Parameters in pixels: ``heights`` of the parts, top first; the margins ``left``, ``right`` and
    ``bottom``; ``between`` columns; ``above`` each panel for its heading and ``under`` it for tick
    labels and axis title.
    """

    def __init__(
        self,
        count: int,
        *,
        title: str,
        subtitle: str = "",
        columns: int = 2,
        heights: Sequence[int] = (230,),
        width: int = 960,
        left: int = 78,
        right: int = 20,
        between: int = 66,
        above: int = 26,
        under: int = 46,
        bottom: int = 8,
    ) -> None:
        self.columns = min(columns, count)
        self._parts = len(heights)
        self._traces: list[dict[str, Any]] = []
        self._notes: list[dict[str, Any]] = []
        self._shapes: list[dict[str, Any]] = []
        self._axes: dict[str, dict[str, Any]] = {}
        lines = subtitle.count("<br>") + 1 if subtitle else 0
        top = 40 + 17 * lines
        block = above + sum(heights) + _GAP * (len(heights) - 1) + under
        self._inside = width - left - right
        tall = block * -(-count // self.columns)
        panel_width = (self._inside - between * (self.columns - 1)) / self.columns
        for panel in range(count):
            row, column = divmod(panel, self.columns)
            x = column * (panel_width + between)
            y = block * row + above
            for part, height in enumerate(heights):
                self._add_axes(
                    panel,
                    part,
                    [x / self._inside, min(1.0, (x + panel_width) / self._inside)],
                    [max(0.0, 1 - (y + height) / tall), 1 - y / tall],
                )
                y += height + _GAP
        self._layout: dict[str, Any] = {
            "template": "plotly_white",
            "width": width,
            "height": top + tall + bottom,
            "margin": {"l": left, "r": right, "t": top, "b": bottom, "pad": 0},
            "font": {"family": FONT, "size": 12, "color": TEXT},
            "hoverlabel": {"font": {"family": FONT}},
            "title": {
                "text": f"<b>{title}</b>",
                "font": {"size": 16},
                "x": _EDGE / width,
                "xanchor": "left",
                "y": 1,
                "yref": "container",
                "yanchor": "top",
                "pad": {"t": 14},
            },
        }
        if subtitle:
            self._notes.append(
                {
                    "text": subtitle,
                    "align": "left",
                    "showarrow": False,
                    "font": {"size": 12.5, "color": QUIET},
                    "xref": "paper",
                    "x": 0,
                    "xanchor": "left",
                    "xshift": _EDGE - left - 2,  # its padding
                    "yref": "paper",
                    "y": 1,
                    "yanchor": "bottom",
                    "yshift": 2,
                }
            )

    def _add_axes(self, panel: int, part: int, x: list[float], y: list[float]) -> None:
        key, last = self._key(panel, part), part == self._parts - 1
        self._axes[f"xaxis{key}"] = {
            **_AXIS,
            "domain": x,
            "anchor": f"y{key}",
            "showticklabels": last,
            "ticks": "outside" if last else "",
            "matches": None if last else f"x{self._key(panel, self._parts - 1)}",
        }
        self._axes[f"yaxis{key}"] = {**_AXIS, "domain": y, "anchor": f"x{key}", "ticks": "outside"}

    def _key(self, panel: int, part: int) -> str:
        number = panel * self._parts + part + 1
        return "" if number == 1 else str(number)

    def trace(self, panel: int, part: int = 0, **options: Any) -> None:
        """Draw into a part of a panel."""
        key = self._key(panel, part)
        self._traces.append(
            {"type": "scatter", "xaxis": f"x{key}", "yaxis": f"y{key}", "showlegend": False}
            | options
        )

    def x(self, panel: int, part: int = 0, *, title: str = "", **options: Any) -> None:
        """Set options of an x axis."""
        self._set_axis(f"xaxis{self._key(panel, part)}", title, options)

    def y(self, panel: int, part: int = 0, *, title: str = "", **options: Any) -> None:
        """Set options of a y axis."""
        self._set_axis(f"yaxis{self._key(panel, part)}", title, options)

    def _set_axis(self, name: str, title: str, options: dict[str, Any]) -> None:
        self._axes[name] |= options
        if title:
            self._axes[name]["title"] = {"text": title, "font": {"size": 12}, "standoff": 6}

    def heading(self, panel: int, text: str) -> None:
        """Put a title above a panel."""
        place: dict[str, Any] = {"inside": True, "anchor": ("left", "bottom"), "shift": (0, 4)}
        self.note(panel, f"<b>{text}</b>", 0, 1, **place, size=13, colour=TEXT)

    def note(
        self,
        panel: int,
        text: str,
        x: float,
        y: float,
        part: int = 0,
        *,
        inside: bool = False,
        anchor: tuple[str, str] = ("center", "middle"),
        shift: tuple[float, float] = (0, 0),
        size: float = 11,
        colour: str = QUIET,
        **options: Any,
    ) -> None:
        """Write at data coordinates, or ``inside`` at shares of the part's width and height."""
        key, domain = self._key(panel, part), " domain" if inside else ""
        self._notes.append(
            {
                "text": text,
                "x": x,
                "xref": f"x{key}{domain}",
                "xanchor": anchor[0],
                "xshift": shift[0],
                "y": y,
                "yref": f"y{key}{domain}",
                "yanchor": anchor[1],
                "yshift": shift[1],
                "showarrow": False,
                "font": {"size": size, "color": colour},
                **options,
            }
        )

    def upright(
        self, panel: int, part: int, x: float, line: dict[str, Any], reach: float = 1.0
    ) -> None:
        """Draw a line from the bottom of a part to its top, or ``reach`` times as high."""
        key = self._key(panel, part)
        self._shapes.append(
            {"type": "line", "xref": f"x{key}", "x0": x, "x1": x, "line": line, "layer": "below"}
            | {"yref": f"y{key} domain", "y0": 0, "y1": reach}
        )

    def level(self, panel: int, part: int, y: float, line: dict[str, Any]) -> None:
        """Draw a line across a part."""
        key = self._key(panel, part)
        self._shapes.append(
            {"type": "line", "yref": f"y{key}", "y0": y, "y1": y, "line": line, "layer": "below"}
            | {"xref": f"x{key} domain", "x0": 0, "x1": 1}
        )

    def legend(self, names: Sequence[str]) -> None:
        """Make room for a legend of these names, in even columns below everything."""
        entry = min(self._inside, 48 + 7.2 * max(map(len, names)))
        rows = -(-len(names) // max(1, int(self._inside // entry)))
        room = _LEGEND_ROW * rows + 10
        self._layout["height"] += room
        self._layout["margin"]["b"] += room
        self._layout["legend"] = {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yanchor": "top",
            "entrywidth": entry - 40,
            "entrywidthmode": "pixels",
            "font": {"size": 12},
            "itemsizing": "trace",
            "tracegroupgap": 0,
        }

    def build(self) -> go.Figure:
        """The figure: made at once, as Plotly is slow at adding one thing after another."""
        layout = self._layout | self._axes | {"annotations": self._notes, "shapes": self._shapes}
        return go.Figure(data=self._traces, layout=layout)


_AXIS: dict[str, Any] = {
    "showline": True,
    "linecolor": LINE,
    "linewidth": 1,
    "tickcolor": LINE,
    "ticklen": 4,
    "gridcolor": GRID,
    "zeroline": False,
    "automargin": False,  # the margins are ours
    "tickfont": {"size": 11.5},
}
