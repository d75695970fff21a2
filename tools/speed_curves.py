"""Curves of how cost grows, as SVG: figures of a benchmark, for the page of speed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from acetune.report.palette import COLOURS, GRID, TEXT

WIDTH, HEIGHT = 420, 240
LEFT, RIGHT, TOP, BOTTOM = 58, 34, 46, 40
LETTER = 6  # width of one, about


class Curve(NamedTuple):
    """Figures whose names end in a number, drawn over that number."""

    title: str
    below: str  # what the number counts
    lines: Mapping[str, str]  # a label, by the beginning of the names


CURVES = {
    "reports": Curve(
        "CPU time of a report in the driver", "reports held", {"driver-": "deciding and writing"}
    ),
    "resume": Curve("Going on with a study", "reports", {"resume-": "until it goes on"}),
    "constraints": Curve("CPU time of a checked report", "constraints", {"constraints-": "ace"}),
    "workers": Curve(
        "Waiting for a report",
        "workers",
        {"workers-": "on this machine", "actors-": "actors of Ray"},
    ),
    "memory": Curve(
        "Memory",
        "reports",
        {
            "memory-driver-": "driver's history",
            "memory-searcher-": "forest",
            "memory-dashboard-": "dashboard",
        },
    ),
}


def curves(result: Mapping[str, Any]) -> dict[str, str]:
    """A picture for each curve that the figures of a result have at least two points of."""
    found = {}
    for name, curve in CURVES.items():
        lines = {label: _points(result, begin) for begin, label in curve.lines.items()}
        lines = {label: points for label, (points, _) in lines.items() if len(points) > 1}
        unit = next((unit for b in curve.lines if (unit := _points(result, b)[1])), "")
        if lines:
            found[name] = _picture(curve, unit, lines)
    return found


def _points(result: Mapping[str, Any], begin: str) -> tuple[list[tuple[float, float]], str]:
    its = [f for f in result["figures"] if f["name"].removeprefix(begin).isdecimal()]
    its = [f for f in its if f["name"].startswith(begin)]
    points = sorted((float(f["name"].removeprefix(begin)), f["ours"]["median"]) for f in its)
    return points, its[0]["unit"] if its else ""


def _picture(curve: Curve, unit: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    xs = sorted({x for points in lines.values() for x, _ in points})
    most = max(y for points in lines.values() for _, y in points)
    step = 10 ** math.floor(math.log10(most))
    step *= next(s for s in (0.2, 0.5, 1.0, 2.0) if most / (step * s) <= 5)
    ticks = [i * step for i in range(math.ceil(most / step - 1e-9) + 1)]

    def across(x: float) -> float:
        share = math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 1)

    def down(y: float) -> float:
        return round(HEIGHT - BOTTOM - y / ticks[-1] * (HEIGHT - TOP - BOTTOM), 1)

    title = escape(f"{curve.title}, {unit}")
    below = f'x="{WIDTH - RIGHT}" y="{HEIGHT - 6}" text-anchor="end"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'font-family="sans-serif" font-size="11" fill="{TEXT}">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{LEFT}" y="16" font-size="13">{title}</text>',
        f"<text {below}>{escape(curve.below)}</text>",
    ]
    for tick in ticks:
        y = down(tick)
        parts.append(f'<path d="M{LEFT} {y}H{WIDTH - RIGHT}" stroke="{GRID}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:,g}</text>')
    for x in xs:
        parts.append(
            f'<text x="{across(x)}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{x:,.0f}</text>'
        )
    legend = LEFT
    for place, (label, points) in enumerate(lines.items()):
        colour = COLOURS[place]
        path = "L".join(f"{across(x)} {down(y)}" for x, y in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<circle cx="{across(x)}" cy="{down(y)}" r="3" fill="{colour}"/>' for x, y in points
        ]
        if len(lines) > 1:
            parts.append(f'<text x="{legend}" y="32" fill="{colour}">{escape(label)}</text>')
            legend += LETTER * (len(label) + 3)
    return "\n".join([*parts, "</svg>", ""])
