"""How the figures of a study look: the same colours and symbols for the same things everywhere.

Every colour has at least three times the luminance contrast of a white and of a near-black page,
and most people can tell them apart; symbols, dashes and patterns differ as well.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from acetune.core.decision import STRATA as STRATA  # beside their looks
from acetune.report.palette import FONT, GRID, LINE, TEXT

Json: TypeAlias = dict[str, Any]  # plain data, as Plotly takes it

VALID, INVALID, UNCHECKED = "#009E73", "#D55E00", "#7F7F7F"
BEST_OF_ALL = "#2B86C9"  # a blue between Okabe and Ito's two, which are too dark or too light
ANSWER = "#C9709F"
NEUTRAL = "#7F7F7F"  # limits, thresholds

#: by the number of the stratum, as in STRATA
STRATUM_COLOURS = (UNCHECKED, INVALID, VALID)
STRATUM_SYMBOLS = ("circle-open", "x", "circle")
STRATUM_PATTERNS = (".", "/", "")

AXIS: Json = {"automargin": True, "zeroline": False, "showline": True}
NOTE: Json = {"showarrow": False, "font": {"size": 12}}
MIDDLE: Json = {"xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}
STAR: Json = {"symbol": "star", "size": 14, "color": ANSWER}  # of the answer

_TITLE_ROOM = 42


def scatter(mode: str, name: str, **more: Any) -> Json:
    """A trace of lines or markers."""
    return {"type": "scatter", "mode": mode, "name": name, **more}


def note(**more: Any) -> Json:
    """Words inside a figure."""
    return {**NOTE, **more}


def limit_line(**ends: Any) -> Json:
    """The dashed line at a limit."""
    return {"type": "line", **ends, "line": {"color": NEUTRAL, "width": 1.5, "dash": "4px,3px"}}


def lying_bar(**more: Any) -> Json:
    """A trace of bars that lie; their ``text`` is seen when one points at them."""
    hover = {"textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    return {"type": "bar", "orientation": "h", **hover, **more}


def bar_marker(colour: str, pattern: str, **more: Any) -> Json:
    """How a bar looks."""
    look = {"shape": pattern, "fillmode": "overlay", "size": 6}
    return {"color": colour, **more, "line": {"width": 0}, "pattern": look}


def light(layout: Json, title: str) -> Json:
    """A layout made to stand alone on white: title, letters, lines, no default template."""
    layout |= {
        "template": "none",
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "font": {"family": FONT, "size": 12, "color": TEXT},
        "title": {
            "text": f"<b>{title}</b>",
            "font": {"size": 15},
            "x": 0,
            "xanchor": "left",
            "xref": "container",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 14, "l": 12},
        },
        "height": layout.get("height", 400) + _TITLE_ROOM,
    }
    margin = layout.setdefault("margin", {})
    margin["t"] = margin.get("t", 10) + _TITLE_ROOM
    for name, axis in layout.items():
        if name.startswith(("xaxis", "yaxis")):
            for key, value in (("gridcolor", GRID), ("linecolor", LINE), ("tickcolor", LINE)):
                axis.setdefault(key, value)
    return layout
