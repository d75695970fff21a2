"""Draw the pictures of the documentation: `python tools/make_pictures.py`.

Plain SVG on a light card of its own, so that it reads on a light and on a dark page alike. Colour
is never alone: strata differ by symbol too, what is cut is crossed out and named, and the steps of
a report have numbers. The rooms and their layers are read from `pyproject.toml`.
"""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs"
VALID, INVALID, UNCHECKED = "#007A59", "#C04F00", "#666666"
TEXT, QUIET, LINE, CUT = "#1E1E1E", "#555555", "#9A9A9A", "#FBE3D6"
WIDTH = 920
TRUNCATION = 0.25

ON_THE_WAY, ON_THE_WAY_LINE = "#E3F1EC", "#00695C"
LEFT, RIGHT, GAP = 72, 896, 8  # of all rooms, and between them
#: the rooms that a report comes through: the height of the layer, where the room begins and ends,
#: and where in it its name stands, out of the way of arrows
WAY = {
    "run": (118, 72, 520, 84, 25),
    "study": (88, 352, 896, 544, 25),
    "trial": (100, 72, 336, 124, 85),
    "policies": (96, 72, 896, 544, 25),
    "core": (78, 72, 896, 544, 45),
}
OTHERS_FROM = {"run": 528, "trial": 640}  # where the other rooms of these layers begin
PLAIN_HEIGHT = 42  # of the other layers
#: what a room is for, where there is space to say it
MEANINGS = {
    "cli": "the command, one verb per file",
    "replay": "recorded curves, simulator",
    "testing": "checks for your own parts",
    "plot": "figures for notebooks",
    "report": "the page, its figures, the dashboard",
    "run": "tune(): driver and workers",
    "study": "the study file",
    "trial": "what train() sees",
    "policies": "when to check, whom to stop",
    "core": "rules without I/O",
}


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
        extra: str = "",
    ) -> None:
        """Words at a place."""
        weight = (' font-weight="bold"' if bold else "") + extra
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

    def module(self, x: float, y: float, width: float, name: str) -> None:
        """A module that a report comes through."""
        self.box(x, y, width, 30, "#FFFFFF", ON_THE_WAY_LINE)
        code = ' font-family="Menlo, Consolas, monospace"'
        self.text(x + width / 2, y + 20, name, anchor="middle", extra=code)

    def step(self, number: int, x: float, y: float) -> None:
        """The number of a step, on its way."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{ON_THE_WAY_LINE}"/>')
        self.text(x, y + 5, str(number), colour="#FFFFFF", bold=True, anchor="middle")

    def svg(self, title: str, height: int) -> str:
        """The whole picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(title)}</title>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" fill="#333333"/></marker>'
            "</defs>\n"
            f'<rect width="{WIDTH}" height="{height}" rx="12" fill="#FFFFFF"/>\n'
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


def layers() -> list[list[str]]:
    """The rooms of each layer, from top to bottom, as import-linter holds them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    found = next(contract for contract in contracts if contract["type"] == "layers")
    return [layer.split(" | ") for layer in found["layers"]]


def rooms(draw: Drawing, top: float) -> dict[str, float]:
    """Every room in its layer; returns where those that a report comes through begin."""
    begins = {}
    draw.text(24, 32, "The rooms of src/acetune, and the way of a report", size=17, bold=True)
    first = top
    for layer in layers():
        way = next((room for room in layer if room in WAY), None)
        height = PLAIN_HEIGHT if way is None else WAY[way][0]
        draw.box(LEFT - 8, top, RIGHT - LEFT + 16, height, "#F1F1F1", "none")
        if way is not None:
            _, left, right, x, y = WAY[way]
            draw.box(left, top + 5, right - left, height - 10, ON_THE_WAY, ON_THE_WAY_LINE)
            named(draw, way, x, top + y)
            begins[way] = top
        others(draw, [room for room in layer if room != way], way, top, height)
        top += height + GAP
    draw.arrow(f"M44 {first + 4}V{top - GAP - 4}")
    middle = (first + top) / 2
    turned = f' transform="rotate(-90 34 {middle:g})"'
    draw.text(34, middle, "imports point down", colour=QUIET, anchor="middle", extra=turned)
    return begins


def others(draw: Drawing, names: list[str], way: str | None, top: float, height: float) -> None:
    """The rooms of a layer that a report does not come through, side by side, in up to two rows."""
    if not names:
        return
    left = LEFT if way is None else OTHERS_FROM[way]
    rows = math.ceil(len(names) / 3)
    columns = math.ceil(len(names) / rows)
    width = (RIGHT - left - GAP * (columns - 1)) / columns
    tall = (height - 10 - GAP * (rows - 1)) / rows
    for place, name in enumerate(names):
        x = left + (width + GAP) * (place % columns)
        y = top + 5 + (tall + GAP) * (place // columns)
        draw.box(x, y, width, tall, "#FFFFFF", LINE)
        if name not in MEANINGS:
            draw.text(x + width / 2, y + tall / 2 + 5, name, size=15, bold=True, anchor="middle")
            continue
        named(draw, name, x + 12, y + tall / 2 + 5)


def named(draw: Drawing, room: str, x: float, y: float) -> None:
    """The name of a room, and what it is for."""
    meaning = f'<tspan dx="10" font-size="14" fill="{QUIET}" font-weight="normal">'
    draw.parts.append(
        f'<text x="{x:g}" y="{y:g}" font-size="15" fill="{TEXT}" font-weight="bold">{room}'
        f"{meaning}{escape(MEANINGS[room])}</tspan></text>"
    )


def way_of_a_report(draw: Drawing, begins: dict[str, float]) -> None:
    """From the training loop to the study file and back, in six steps."""
    run, study, trial = begins["run"] + 66, begins["study"] + 44, begins["trial"] + 18
    policies, core = begins["policies"] + 48, begins["core"] + 34
    end = begins["trial"] + WAY["trial"][0]
    draw.line(f"M344 {begins['run'] + 34}V{end}", QUIET, 1.5, 'stroke-dasharray="5 4"')
    draw.text(334, begins["run"] + 48, "worker process", colour=QUIET, anchor="end")
    draw.text(354, begins["run"] + 48, "driver process", colour=QUIET)

    draw.module(84, run, 112, "_pipe_link")
    draw.module(400, run, 96, "_driver")
    draw.module(384, study, 128, "coordinator")
    draw.module(624, study, 104, "_journal")
    draw.module(800, study, 84, "store")
    draw.module(84, trial, 96, "trial")
    draw.module(244, trial, 80, "checks")
    draw.module(84, policies, 80, "policy")
    draw.module(384, policies, 136, "stopper")
    draw.module(624, policies, 180, "_ace2, _asha, …")
    draw.module(384, core, 136, "history")

    draw.arrow(f"M104 {trial + 30}V{policies - 2}")
    draw.step(1, 104, trial + 52)
    draw.text(174, policies + 20, "is a check due, worth it?")
    draw.arrow(f"M180 {trial + 15}H242")
    draw.step(2, 208, trial + 15)
    draw.text(210, trial + 42, "timed", anchor="middle")

    draw.arrow(f"M104 {trial}V{run + 32}")
    draw.text(112, study + 30, "report")
    draw.arrow(f"M196 {run + 9}H398")
    draw.step(3, 268, run + 9)

    draw.arrow(f"M424 {run + 30}V{study - 2}")
    draw.arrow(f"M424 {study + 30}V{policies - 2}")
    draw.step(4, 424, trial + 26)
    draw.text(442, trial + 31, "what follows?")
    draw.arrow(f"M520 {policies + 9}H622")
    draw.text(571, policies + 1, "decide", anchor="middle")
    draw.arrow(f"M624 {policies + 22}H522")
    draw.arrow(f"M450 {policies + 30}V{core - 2}")
    draw.text(458, core - 8, "append")

    draw.arrow(f"M512 {study + 15}H622")
    draw.step(5, 566, study + 15)
    draw.arrow(f"M728 {study + 15}H798")
    draw.text(762, study + 8, "write", anchor="middle")

    draw.arrow(f"M472 {study}V{run + 32}")
    draw.arrow(f"M400 {run + 22}H198")
    draw.arrow(f"M166 {run + 30}V{trial - 2}")
    draw.step(6, 166, study)
    draw.text(184, study + 5, "answer, once committed")


def picture_of_strata() -> str:
    """How ACE decides."""
    draw = Drawing()
    interval(draw, 38)
    gate(draw, 168)
    strata(draw, 312)
    return draw.svg("How ACE decides on a report", 672)


def picture_of_rooms() -> str:
    """The architecture."""
    draw = Drawing()
    begins = rooms(draw, 48)
    way_of_a_report(draw, begins)
    height = round(begins["core"] + WAY["core"][0] + 24)
    return draw.svg("The rooms of acetune in eight layers, and the way of a report", height)


PICTURES = {"strata.svg": picture_of_strata, "rooms.svg": picture_of_rooms}


def main() -> None:
    """Write the pictures."""
    for name, draw in PICTURES.items():
        (OUT / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
