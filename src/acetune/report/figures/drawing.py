"""What a figure is made of: plain data for Plotly, and the words that go with it.

Figures are gathered as plain dicts. Plotly's own objects validate every value, which takes longer
than all the rest; they are made on demand, for notebooks and images (:attr:`Drawing.figure`).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from acetune.report.figures.digest import Floats
from acetune.report.figures.look import AXIS, MIDDLE, NEUTRAL, NOTE, light
from acetune.report.figures.words import safe

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FAR = 1e300  # what an axis can show; beyond it differences are no numbers any more


class SmallTable(NamedTuple):
    """The numbers behind a figure, for those who cannot or do not want to see it."""

    columns: list[str]
    rows: list[list[str]]


@dataclass(slots=True)
class Drawing:
    """One figure with its words.

    ``caption`` says how to read it, ``alt`` what it shows, in numbers. ``data`` and ``layout`` are
    Plotly's, transparent and without fonts or grid colours: the page sets those, as it knows
    whether it is dark. Words are plain text; whatever stands inside ``data`` and ``layout`` is
    escaped. ``empty``: there was nothing to draw, and the figure says why.
    """

    id: str
    title: str
    caption: str
    alt: str
    data: list[dict[str, Any]] = field(default_factory=list)
    layout: dict[str, Any] = field(default_factory=dict)
    table: SmallTable | None = None
    empty: bool = False

    def as_json(self) -> dict[str, Any]:
        """The drawing as JSON-able data."""
        table = None if self.table is None else self.table._asdict()
        return {
            "id": self.id,
            "title": self.title,
            "caption": self.caption,
            "alt": self.alt,
            "figure": {"data": self.data, "layout": self.layout},
            "table": table,
        }

    @property
    def figure(self) -> go.Figure:
        """A Plotly figure with a light look of its own, for notebooks and images."""
        import plotly.graph_objects as go

        layout = light(copy.deepcopy(self.layout), safe(self.title, 80))
        layout["meta"] = {"caption": self.caption, "alt": self.alt}
        return go.Figure(data=self.data, layout=layout)


def nothing(id: str, title: str, why: str, caption: str = "") -> Drawing:
    """A figure that says in words why there is nothing to see."""
    layout: dict[str, Any] = {
        "height": 120,
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "annotations": [note(text=_wrapped(why), **MIDDLE)],
    }
    return Drawing(id, title, caption or why, why, [], layout, empty=True)


def _wrapped(text: str, width: int = 44) -> str:
    """Text in lines that fit a phone."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "<br>".join(safe(part, 200) for part in [*lines, line])


def scatter(mode: str, name: str, **more: Any) -> dict[str, Any]:
    """A trace of lines or markers."""
    return {"type": "scatter", "mode": mode, "name": name, **more}


def note(**more: Any) -> dict[str, Any]:
    """Words inside a figure."""
    return {**NOTE, **more}


def limit_line(**ends: Any) -> dict[str, Any]:
    """The dashed line at a limit."""
    return {"type": "line", **ends, "line": {"color": NEUTRAL, "width": 1.5, "dash": "4px,3px"}}


def axis_title(text: str) -> dict[str, Any]:
    """The title of an axis, near to it."""
    return {"text": text, "standoff": 6}


def base_layout(height: int, **more: Any) -> dict[str, Any]:
    """What all figures share: the legend below, room that adapts to the labels."""
    layout: dict[str, Any] = {
        "height": height,
        "autosize": True,
        "margin": {"l": 8, "r": 12, "t": 10, "b": 8},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": {
            "orientation": "h",
            "x": 0,
            "xanchor": "left",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
        },
        "xaxis": dict(AXIS),
        "yaxis": dict(AXIS),
    }
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(layout.get(name), dict):
            layout[name] = {**layout[name], **value}
        else:
            layout[name] = value
    return layout


# -- what part of an axis to show, so that a few wild values do not hide the rest ------------------


class Window(NamedTuple):
    """The part of an axis that is shown, and how many values lie outside."""

    low: float
    high: float
    outside: int

    @property
    def range(self) -> list[float]:
        """As Plotly wants it."""
        return [self.low, self.high]

    @property
    def span(self) -> float:
        """How much it covers."""
        return self.high - self.low


def window(values: Floats, keep: Sequence[float] = ()) -> Window:
    """Where nearly all values lie, and all that must be seen.

    Cut only where the rest, one in 25 on each side, would take more than half of the axis.

    >>> window(np.r_[np.linspace(0, 1, 100), 1e9], keep=[1.5]).outside
    1
    """
    values = within_reach(values[np.isfinite(values)])
    kept = within_reach(np.array([v for v in keep if math.isfinite(v)], float))
    if not len(values) + len(kept):
        return Window(0.0, 1.0, 0)
    if len(values):
        middle = np.quantile(values, [0.04, 0.96])
        kept = np.concatenate([kept, middle])
    low, high = float(kept.min()), float(kept.max())
    if len(values):
        room = 0.5 * (high - low)
        least, most = float(values.min()), float(values.max())
        low = min(low, least) if least >= low - room else low - 0.1 * room
        high = max(high, most) if most <= high + room else high + 0.1 * room
    pad = 0.05 * ((high - low) or abs(high)) or 1.0
    low, high = low - pad, high + pad
    return Window(low, high, int(np.sum((values < low) | (values > high))))


def within_reach(values: Floats) -> Floats:
    """The values, those that no axis can show at its farthest ends.

    >>> within_reach(np.array([-1.7e308, 2.0])).tolist()
    [-1e+300, 2.0]
    """
    return np.clip(values, -_FAR, _FAR)


def log_axis(low: float, high: float) -> dict[str, Any]:
    """A logarithmic axis between two powers of ten, its ticks written out and not too many.

    >>> log_axis(0.0, 1.5)["ticktext"]
    ['1', '2', '5', '10', '20']
    """
    digits = (1, 2, 5) if high - low < 1.7 else (1, 3) if high - low < 3 else (1,)
    every = max(1, math.ceil((high - low) / 7))  # decades
    powers = range(math.floor(low), math.ceil(high) + 1)
    # from text, as 5 * 10.0**-1 and the like are not always what people would write
    ticks = [float(f"{digit}e{power}") for power in powers if not power % every for digit in digits]
    ticks = [tick for tick in ticks if low <= math.log10(tick) <= high]
    text = [f"{tick:g}" if tick < 1e5 else f"{tick:.0e}" for tick in ticks]
    return {"type": "log", "range": [low, high], "tickvals": ticks, "ticktext": text}
