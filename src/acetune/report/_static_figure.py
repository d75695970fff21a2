"""A figure as a still picture: what is seen until plotly.js is there, or where no script may run.

plotly.js takes a second or two to be read and to draw; this is part of the page itself. Widths are
not known here, so everything is placed in percent, and letters and lines keep their size. Colours
of the page come from its styles; a style attribute would break its content-security policy.
"""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import Any

from acetune.report._markup import Content, Element, element, short

_ABOVE, _BELOW = 10, 80  # pixels around the axes, as in page.css
_SIDE = 1000  # what an axis is long, in the units of lines
_STAR = "M0-9 2.1-2.9 8.6-2.8 3.4 1.1 5.3 7.3 0 3.6-5.3 7.3-3.4 1.1-8.6-2.8-2.1-2.9Z"
_MARK = {"width": "30", "height": "18", "viewBox": "-15 -9 30 18"}


def still(figure: Content) -> Element:
    """A picture of a figure that is made of staircases and stars over one pair of axes."""
    data, layout = figure["figure"]["data"], figure["figure"]["layout"]
    if not data:
        return element("p", short(figure["alt"], 1000), class_="quiet-text")
    x, y = _Axis(layout["xaxis"]), _Axis(layout["yaxis"])
    notes = [note["text"] for note in layout.get("annotations", ())]
    height = layout["height"] - _ABOVE - _BELOW
    drawn = element(
        "svg",
        *[_upright(x.share(tick), text) for tick, text in x.ticks],
        *[_level(1 - y.share(tick), text) for tick, text in y.ticks],
        _line("axis", x1="0", x2="0", y1="0", y2="100%"),
        _line("axis", x1="0", x2="100%", y1="100%", y2="100%"),
        element(
            "svg",
            *[_stairs(trace, x, y) for trace in data if trace["mode"] == "lines"],
            viewBox=f"0 0 {_SIDE} {_SIDE}",
            preserveAspectRatio="none",
        ),
        *[_star(trace, x, y) for trace in data if trace["mode"] == "markers"],
        *[element("text", html.unescape(n), x="50%", y="50%", text_anchor="middle") for n in notes],
        element("text", x.title, x="50%", y="100%", dy="40", text_anchor="middle"),
        height=str(height),
    )
    longest = max((text for _, text in y.ticks), key=len, default="")
    return element(
        "div",
        element("span", y.title, class_="upwards"),
        element("span", longest, class_="room"),  # not seen: it makes room for the ticks
        drawn,
        _legend(data),
        class_="still",
    )


class _Axis:
    """An axis with the range that the figure gives it."""

    def __init__(self, axis: Content) -> None:
        self.title = html.unescape(axis["title"]["text"])  # escaped for plotly.js
        self._low, self._high = axis["range"]
        self.ticks = [(tick, _written(tick)) for tick in round_values(self._low, self._high)]

    def share(self, value: float) -> float:
        """Where a value lies, from 0 at the lower end to 1 at the upper."""
        return float((value - self._low) / (self._high - self._low))


def round_values(low: float, high: float) -> list[float]:
    """About five values between two others that are a multiple of 1, 2 or 5 times a power of ten.

    >>> round_values(0.47, 0.92), round_values(0, 9.8)
    ([0.5, 0.6, 0.7, 0.8, 0.9], [0.0, 2.0, 4.0, 6.0, 8.0])
    """
    rough = (high - low) / 5
    power = math.floor(math.log10(rough))
    # from text, as 2 * 10.0**-1 and the like are not always what people would write
    step = next(s for d in (1, 2, 5, 10) if (s := float(f"{d}e{power}")) >= 0.75 * rough)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [float(f"{number * step:.12g}") for number in range(first, last + 1)]


def _written(value: float) -> str:
    return f"{value:.6g}" if abs(value) < 1e4 else f"{value:.3g}"


def _percent(share: float) -> str:
    return f"{100 * share:.3f}%"


def _line(kind: str, **ends: str) -> Element:
    return element("line", class_=kind, **ends)


def _upright(share: float, text: str) -> Element:
    """A tick of the horizontal axis."""
    at = _percent(share)
    label = element("text", text, x=at, y="100%", dy="22", text_anchor="middle", class_="tick")
    return element("g", _line("grid", x1=at, x2=at, y1="0", y2="100%"), label)


def _level(share: float, text: str) -> Element:
    """A tick of the vertical axis."""
    at = _percent(share)
    label = element("text", text, x="-8", y=at, dy="4.5", text_anchor="end", class_="tick")
    return element("g", _line("grid", x1="0", x2="100%", y1=at, y2=at), label)


def _stairs(trace: Content, x: _Axis, y: _Axis) -> Element:
    """A line that goes level to the next value, then up or down to it."""
    across = [_SIDE * x.share(value) for value in trace["x"]]
    # far outside is outside: SVG has no numbers for what lies a million axes away
    down = [_SIDE * min(2.0, max(-1.0, 1 - y.share(value))) for value in trace["y"]]
    steps = "".join(f"H{a:.1f}V{d:.1f}" for a, d in zip(across[1:], down[1:], strict=True))
    path = f"M{across[0]:.1f} {down[0]:.1f}{steps}"
    return element("path", d=path, vector_effect="non-scaling-stroke", **_stroke(trace["line"]))


def _stroke(line: Content) -> dict[str, str]:
    dash = line.get("dash", "solid")
    look = {"fill": "none", "stroke": line["color"], "stroke_width": str(line["width"])}
    return look if dash == "solid" else look | {"stroke_dasharray": dash.replace("px", "")}


def _star(trace: Content, x: _Axis, y: _Axis) -> Element:
    marks = [
        element("svg", _mark(trace), x=_percent(x.share(across)), y=_percent(1 - y.share(up)))
        for across, up in zip(trace["x"], trace["y"], strict=True)
    ]
    return element("g", *marks)


def _mark(trace: Content) -> Element:
    return element("path", d=_STAR, fill=trace["marker"]["color"])


def _legend(data: Sequence[Content]) -> Element:
    lines: list[Any] = []
    for trace in data:
        shape = (
            element("path", d="M-15 0H15", **_stroke(trace["line"]))
            if trace["mode"] == "lines"
            else _mark(trace)
        )
        lines.append(element("li", element("svg", shape, **_MARK), trace["name"]))
    return element("ul", *lines)
