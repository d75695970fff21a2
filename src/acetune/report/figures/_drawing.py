"""What a figure is made of: plain data for Plotly, and the words that go with it.

Figures are gathered as plain dicts. Plotly's own objects validate every value, which takes longer
than all the rest; they are made on demand, for notebooks and images (:attr:`Drawing.figure`).
"""

from __future__ import annotations

import copy
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from acetune.report.figures._look import AXIS, MIDDLE, Json, bar_marker, light, lying_bar, note
from acetune.report.figures._values import plain, safe

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
    escaped. Without ``data`` there was nothing to draw, and the figure says why.
    """

    id: str
    title: str
    caption: str
    alt: str
    data: list[Json] = field(default_factory=list)
    layout: Json = field(default_factory=dict)
    table: SmallTable | None = None

    def as_json(self) -> Json:
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


def nothing(id: str, title: str, why: str) -> Drawing:
    """A figure that says in words why there is nothing to see."""
    lines = textwrap.wrap(why, 44, break_long_words=False, break_on_hyphens=False)  # for a phone
    layout: Json = {
        "height": 120,
        "margin": {"l": 10, "r": 10, "t": 10, "b": 10},
        "xaxis": {"visible": False},
        "yaxis": {"visible": False},
        "annotations": [note(text="<br>".join(safe(line, 200) for line in lines), **MIDDLE)],
    }
    return Drawing(id, title, why, why, [], layout)


def axis_title(text: str) -> Json:
    """The title of an axis, near to it."""
    return {"text": text, "standoff": 6}


def base_layout(height: int, **more: Any) -> Json:
    """What all figures share: the legend below, room that adapts to the labels."""
    layout: Json = {
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


_ROW, _BAR = 46, 0.34  # pixels a bar with its words; the bar's share of it


class Bar(NamedTuple):
    """One bar. ``label`` stands above it and must be escaped already."""

    label: str
    value: float
    text: str
    colour: str
    pattern: str = ""


def lying_bars(bars: Sequence[Bar]) -> tuple[list[Json], Json]:
    """Traces and layout of bars from the top down."""
    places = [-i for i in range(len(bars))]
    # a trace each: Plotly takes no list of colours where there are patterns
    traces = [
        lying_bar(
            x=plain([bar.value]),
            y=[place],
            width=_BAR,
            text=[f"{bar.text} {bar.label}"],
            marker=bar_marker(bar.colour, bar.pattern),
            showlegend=False,
        )
        for bar, place in zip(bars, places, strict=True)
    ]
    layout = base_layout(_ROW * len(bars) + 16, barmode="overlay")
    longest = 1.02 * max((bar.value for bar in bars), default=1.0) or 1.0
    layout["xaxis"] = {"visible": False, "range": [0, longest], "fixedrange": True}
    layout["yaxis"] = {"visible": False, "range": [0.32 - len(bars), 0.82], "fixedrange": True}
    layout["margin"] = {"l": 8, "r": 8, "t": 4, "b": 4}
    left = {"xref": "paper", "x": 0, "xanchor": "left"}
    layout["annotations"] = [
        # what is cut off, if any, is not the number
        note(text=f"<b>{bar.text}</b> {bar.label}", **left, yref="y", y=place + _BAR / 2)
        | {"yanchor": "bottom", "align": "left"}
        for bar, place in zip(bars, places, strict=True)
    ]
    return traces, layout
