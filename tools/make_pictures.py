"""Draw the picture of the strata for the documentation: `python tools/make_pictures.py`.

Plain SVG on a light card of its own, so that it reads on a light and on a dark page alike. Colour
is never alone: strata differ by symbol too, and what is cut is crossed out and named.
"""

from __future__ import annotations

import math
from pathlib import Path
from xml.sax.saxutils import escape

OUT = Path(__file__).parent.parent / "docs" / "strata.svg"
VALID, INVALID, UNCHECKED = "#007A59", "#C04F00", "#666666"
TEXT, QUIET, LINE, CUT = "#1E1E1E", "#555555", "#9A9A9A", "#FBE3D6"
WIDTH, HEIGHT = 920, 672
TRUNCATION = 0.25


class Drawing:
    """Shapes of a picture, in order."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        size: int = 14,
        colour: str = TEXT,
        bold: bool = False,
        anchor: str = "start",
    ) -> None:
        """Words at a place."""
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" '
            f'text-anchor="{anchor}"{weight}>{escape(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str, line: str) -> None:
        """A rectangle with round corners."""
        corner = min(8.0, height / 5)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{corner:g}" '
            f'fill="{fill}" stroke="{line}"/>'
        )

    def line(self, path: str, colour: str = LINE, width: float = 1.5, extra: str = "") -> None:
        """A path."""
        self.parts.append(
            f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}" {extra}/>'
        )

    def arrow(self, path: str) -> None:
        """A path with a head."""
        self.line(path, "#333333", 1.6, 'marker-end="url(#head)"')

    def symbol(self, stratum: str, x: float, y: float, size: float = 7) -> None:
        """A report: a dot, a cross or an open circle, as in all pictures of a study."""
        if stratum == "valid":
            self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{size}" fill="{VALID}"/>')
        elif stratum == "invalid":
            s = size * 0.9
            path = (
                f"M{x - s:g} {y - s:g}L{x + s:g} {y + s:g}M{x - s:g} {y + s:g}L{x + s:g} {y - s:g}"
            )
            self.line(path, INVALID, 3)
        else:
            self.parts.append(
                f'<circle cx="{x:g}" cy="{y:g}" r="{size}" fill="none" stroke="{UNCHECKED}" '
                'stroke-width="2.4"/>'
            )

    def svg(self, title: str) -> str:
        """The whole picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
            f'aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" fill="#333333"/></marker>'
            "</defs>\n"
            f'<rect width="{WIDTH}" height="{HEIGHT}" rx="12" fill="#FFFFFF"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def interval(draw: Drawing, top: float) -> None:
    """Question 1: every step, or once at the end."""
    draw.text(30, top, "1  Is a check due? The interval", size=17, bold=True)
    for row, (name, due) in enumerate(
        (("every step", range(12)), ("once, at the end", (11,))), start=1
    ):
        y = top + 4 + 34 * row
        draw.text(50, y + 5, name)
        draw.line(f"M200 {y}H640")
        for step in range(12):
            x = 210 + 38 * step
            draw.line(f"M{x} {y - 5}v10")
            if step in due:
                draw.box(x - 8, y - 8, 16, 16, "#FFF1C9", "#8A6500")
    y = top + 38
    draw.box(665, y - 8, 16, 16, "#FFF1C9", "#8A6500")
    draw.text(690, y + 5, "a check is due")
    draw.text(665, y + 39, "steps 1 to T of a trial", colour=QUIET)


def gate(draw: Drawing, top: float) -> None:
    """Question 2: only what can still win."""
    draw.text(30, top, "2  Is it worth it? The gate", size=17, bold=True)
    y = top + 66
    draw.text(50, top + 32, "objective", colour=QUIET)
    draw.line(f"M130 {top + 27}H640", "#333333", 1.5, 'marker-end="url(#head)"')
    draw.text(650, top + 32, "better", colour=QUIET)
    draw.box(50, y - 22, 312, 40, "#F1F1F1", "none")
    draw.text(206, y + 3, "cannot win: not checked", anchor="middle", colour=QUIET)
    draw.box(372, y - 22, 268, 40, "#FFF1C9", "none")
    draw.text(506, y + 3, "may win: checked if due", anchor="middle")
    draw.line(f"M367 {top + 18}V{y + 26}", VALID, 3)
    draw.text(650, y - 4, "f*, the best objective that is", colour=VALID, bold=True)
    draw.text(650, y + 15, "known to be feasible", colour=VALID, bold=True)


def strata(draw: Drawing, top: float) -> None:
    """Question 3: the worst quarter of each stratum at this step stops."""
    draw.text(30, top, "3  Does it go on? The strata", size=17, bold=True)
    draw.text(
        285,
        top,
        "all reports that any trial made at this step, ranked in three groups",
        colour=QUIET,
    )
    rows = [
        ("valid", "checked, every limit holds", "by objective", VALID, 8),
        ("invalid", "checked, a limit is broken", "by violation, then objective", INVALID, 12),
        ("unchecked", "not due, or cannot win", "by objective", UNCHECKED, 16),
    ]
    left, step = 300, 36
    for number, (name, means, order, colour, count) in enumerate(rows):
        y = top + 22 + 92 * number
        draw.box(30, y, 860, 80, "#FAFAFA", LINE)
        draw.symbol(name, 52, y + 22)
        draw.text(70, y + 27, name, size=16, colour=colour, bold=True)
        draw.text(45, y + 48, means)
        draw.text(45, y + 67, order, colour=QUIET)
        cut = math.floor(TRUNCATION * count)
        begin = left + step * (count - cut) - step / 2 + 2
        draw.box(begin, y + 8, step * cut - 4, 64, CUT, "#B04A00")
        for place in range(count):
            draw.symbol(name, left + step * place, y + 32)
        middle = begin + (step * cut - 4) / 2
        draw.text(middle, y + 64, "stop", size=14, colour="#8A3400", bold=True, anchor="middle")
        draw.text(left - 8, y + 64, "best", colour=QUIET)
        draw.arrow(f"M{left + 28} {y + 59}H{begin - 10}")
    draw.text(
        30,
        top + 318,
        "The worst quarter of each group stops: 2 of 8, 3 of 12, 4 of 16, and nobody among fewer "
        "than 4.",
    )
    draw.text(
        30,
        top + 340,
        "Groups are never compared with each other, so no weight says what a violation is worth.",
    )


def main() -> None:
    """Write the picture."""
    draw = Drawing()
    interval(draw, 38)
    gate(draw, 168)
    strata(draw, 312)
    OUT.write_text(draw.svg("How ACE decides on a report"), encoding="utf-8")


if __name__ == "__main__":
    main()
