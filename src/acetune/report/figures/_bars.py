"""Bars that lie, with their words above them: readable at any width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acetune.report.figures._drawing import base_layout
from acetune.report.figures._look import Json, bar_marker, note
from acetune.report.figures._text import plain

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
        {
            "type": "bar",
            "orientation": "h",
            "x": plain([bar.value]),
            "y": [place],
            "width": _BAR,
            "text": [f"{bar.text} {bar.label}"],
            "textposition": "none",
            "marker": bar_marker(bar.colour, bar.pattern),
            "hovertemplate": "%{text}<extra></extra>",
            "showlegend": False,
        }
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
