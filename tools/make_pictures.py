"""Draw the pictures of the documentation: `python tools/make_pictures.py`.

Plain SVG on a card of its own, whose colours follow the reader's light or dark scheme. Colour
is never alone: strata differ by symbol too, what is cut is crossed out and named, and the steps of
a report have numbers. The rooms and their layers are read from `pyproject.toml`.
"""

from __future__ import annotations

import itertools
import math
import tomllib
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import acetune
from acetune import Constraint, Stopper

ROOT = Path(__file__).parent.parent
OUT = ROOT / "docs"
#: each colour on a light and on a dark card
COLOURS = {
    "ground": ("#FFFFFF", "#16181D"),
    "text": ("#1E1E1E", "#ECECEC"),
    "quiet": ("#555555", "#B0B0B0"),
    "line": ("#9A9A9A", "#6A6D75"),
    "pale": ("#F1F1F1", "#22252B"),
    "valid": ("#007A59", "#3ECF9F"),
    "invalid": ("#B84A00", "#FF9A5C"),
    "unchecked": ("#666666", "#A8A8A8"),
    "cut": ("#FBE3D6", "#3A2417"),
    "due": ("#FFF1C9", "#473A12"),
    "due-line": ("#8A6500", "#E0B84C"),
    "way": ("#E3F1EC", "#12332B"),
    "way-line": ("#00695C", "#3ECF9F"),
    "number": ("#FFFFFF", "#16181D"),
}
GROUND, PALE, DUE, DUE_LINE = "var(--ground)", "var(--pale)", "var(--due)", "var(--due-line)"
VALID, INVALID, UNCHECKED = "var(--valid)", "var(--invalid)", "var(--unchecked)"
TEXT, QUIET, LINE, CUT = "var(--text)", "var(--quiet)", "var(--line)", "var(--cut)"
WIDTH = 920
TRUNCATION = 0.25
TITLE: dict[str, Any] = {"size": 17, "bold": True}
STEPS = 60  # of the trial in the picture of prices
#: what a check costs, in steps
PRICES = (
    (0.01, "next to nothing"),
    (1.0, "one step"),
    (5.0, "5 steps"),
    (20.0, "20 steps"),
    (60.0, "60 steps: all of the training"),
)

ON_THE_WAY, ON_THE_WAY_LINE = "var(--way)", "var(--way-line)"
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
    "policies": "when to check, which to stop",
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
        self.line(path, TEXT, 1.6, 'marker-end="url(#head)"')

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
        self.box(x, y, width, 30, GROUND, ON_THE_WAY_LINE)
        code = ' font-family="Menlo, Consolas, monospace"'
        self.text(x + width / 2, y + 20, name, anchor="middle", extra=code)

    def step(self, number: int, x: float, y: float) -> None:
        """The number of a step, on its way."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="11" fill="{ON_THE_WAY_LINE}"/>')
        self.text(x, y + 5, str(number), colour="var(--number)", bold=True, anchor="middle")

    def svg(self, title: str, height: int) -> str:
        """The whole picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{escape(title)}" font-family="Helvetica, Arial, sans-serif">\n'
            f"<title>{escape(title)}</title>\n<style>{_style()}</style>\n"
            '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            'markerHeight="7" orient="auto"><path d="M0 0 10 5 0 10z" fill="var(--text)"/></marker>'
            "</defs>\n"
            f'<rect width="{WIDTH}" height="{height}" rx="12" fill="{GROUND}"/>\n'
        )
        return head + "\n".join(self.parts) + "\n</svg>\n"


def _style() -> str:
    """The colours, light and dark."""
    light, dark = (
        "".join(f"--{name}:{both[n]};" for name, both in COLOURS.items()) for n in (0, 1)
    )
    return f"svg{{{light}}}@media (prefers-color-scheme:dark){{svg{{{dark}}}}}"


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
                draw.box(x - 8, y - 8, 16, 16, DUE, DUE_LINE)
    y = top + 38
    draw.box(665, y - 8, 16, 16, DUE, DUE_LINE)
    draw.text(690, y + 5, "a check is due")
    draw.text(665, y + 39, "steps 1 to T of a trial", colour=QUIET)


def gate(draw: Drawing, top: float) -> None:
    """Question 2: only what can still win."""
    draw.text(30, top, "2  Is it worth it? The gate", size=17, bold=True)
    y = top + 66
    draw.text(50, top + 32, "objective", colour=QUIET)
    draw.line(f"M130 {top + 27}H640", TEXT, 1.5, 'marker-end="url(#head)"')
    draw.text(650, top + 32, "better", colour=QUIET)
    draw.box(50, y - 22, 312, 40, PALE, "none")
    draw.text(206, y + 3, "cannot win: not checked", anchor="middle", colour=QUIET)
    draw.box(372, y - 22, 268, 40, DUE, "none")
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
        draw.box(30, y, 860, 80, GROUND, LINE)
        draw.symbol(name, 52, y + 22)
        draw.text(70, y + 27, name, size=16, colour=colour, bold=True)
        draw.text(45, y + 48, means)
        draw.text(45, y + 67, order, colour=QUIET)
        cut = math.floor(TRUNCATION * count)
        begin = left + step * (count - cut) - step / 2 + 2
        draw.box(begin, y + 8, step * cut - 4, 64, CUT, INVALID)
        for place in range(count):
            draw.symbol(name, left + step * place, y + 32)
        middle = begin + (step * cut - 4) / 2
        draw.text(middle, y + 64, "stop", size=14, colour=INVALID, bold=True, anchor="middle")
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
        draw.box(LEFT - 8, top, RIGHT - LEFT + 16, height, PALE, "none")
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
        draw.box(x, y, width, tall, GROUND, LINE)
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


def picture_of_prices() -> str:
    """When the default policy checks a trial, by what a check costs, as it decides itself."""
    draw = Drawing()
    draw.text(30, 38, "The price of a check: the more it costs, the less often it is made", **TITLE)
    draw.text(30, 64, "A check costs as much as", colour=QUIET)
    draw.text(250, 64, "one trial, from step 1 to step 60", colour=QUIET)
    for row, (cost, name) in enumerate(PRICES):
        y = 100 + 44 * row
        draw.text(30, y + 5, name)
        draw.line(f"M250 {y}H845")
        due = _due(cost)
        for step in range(1, STEPS + 1):
            x = 250 + 10 * (step - 1)
            draw.line(f"M{x} {y - 3}v6")
            if step in due:
                draw.box(x - 4, y - 11, 8, 22, DUE, DUE_LINE)
        draw.text(895, y + 5, str(len(due)), anchor="end", bold=True)
    draw.text(895, 64, "checks", colour=QUIET, anchor="end")
    y = 100 + 44 * len(PRICES)
    draw.box(30, y - 8, 8, 22, DUE, DUE_LINE)
    draw.text(50, y + 8, "a check is due; the last step always is")
    draw.text(
        30,
        y + 38,
        "So checks never take over the time. Once trials have shown where limits are lost "
        "or gained,",
    )
    draw.text(30, y + 60, "a trial is checked there instead.")
    return draw.svg("When a trial is checked, by what a check costs", y + 84)


def _due(cost: float) -> set[int]:
    """The steps at which a trial is checked whose checks cost so many steps."""
    stopper = Stopper(
        objective="loss",
        mode="min",
        constraints=[Constraint("size", upper=1.0)],
        policy=acetune.Adaptive(),
    )
    found: set[int] = set()
    for number in range(2):  # the first tells what a check costs
        found = set()
        trial = stopper.start(number, total_steps=STEPS)
        for step in range(1, STEPS + 1):
            loss = 1.0 / step - number
            due = trial.check_due(step, loss)
            trial.observe(
                step,
                loss,
                {"size": 0.5} if due else None,
                primary_cost_s=1.0,
                constraint_cost_s=cost if due else None,
            )
            if due:
                found.add(step)
    return found


def picture_of_search() -> str:
    """How the forest learns: reports, what trees make of them, the next configuration."""
    draw = Drawing()
    draw.text(30, 38, "How the search learns: from every report and every check", **TITLE)
    left, right = 190.0, 880.0
    at = lambda x: left + (right - left) * x  # noqa: E731
    configurations = [(2 * n + 1) / 30 for n in range(15)]

    def expected(x: float) -> float:
        return 0.25 + 0.75 * math.sin(1.9 * x + 0.1)

    limit = 0.66
    for n, (top, words) in enumerate(
        ((64, ("1  what trials", "    reported")), (214, ("2  what the", "    trees expect")),
         (364, ("3  what is", "    tried next")))
    ):  # fmt: skip
        draw.text(30, top + 40, words[0], bold=True)
        draw.text(30, top + 60, words[1], bold=True)
        draw.box(left, top, right - left, 130, GROUND, LINE)
        if n:
            draw.box(at(limit), top + 1, right - at(limit) - 1, 128, CUT, "none")
    for n, x in enumerate(configurations):
        steps = (8, 3, 2, 8, 5, 2, 8, 6, 8, 3, 8, 8, 4, 2, 8)[n]
        for step in range(1, steps + 1):
            kind = "unchecked"
            if step in (3, 6, 8):
                kind = "valid" if x * (0.8 + step / 40) < limit else "invalid"
            draw.symbol(kind, at(x), 64 + 110 - 13 * step, 4)
    draw.text(200, 187, "a column is a trial, a dot a report", colour=QUIET)
    for tree in range(4):
        cuts = sorted({0.0, 1.0, *(((tree * 7 + k * 13) % 29) / 29 for k in range(1, 7))})
        path = ""
        for begin, end in itertools.pairwise(cuts):
            inside = [expected(x) for x in configurations if begin <= x < end]
            value = sum(inside) / len(inside) if inside else expected((begin + end) / 2)
            y = 214 + 122 - 95 * value
            path += f"{'L' if path else 'M'}{at(begin):.0f} {y:.0f}L{at(end):.0f} {y:.0f}"
        draw.line(path, VALID, 1.6, 'opacity="0.75"')
    draw.text(200, 234, "objective at the end", colour=QUIET)
    draw.text(at(limit) + 8, 336, "limit expected to break", colour=INVALID)
    for n in range(60):
        x = ((n * 37) % 61) / 61
        draw.symbol("unchecked", at(x), 364 + 122 - 95 * expected(x) + (n * 7) % 11 - 5, 2.4)
    best = limit - 0.03
    x, y = at(best), 364 + 122 - 95 * expected(best)
    draw.parts.append(
        f'<circle cx="{x:g}" cy="{y:.0f}" r="10" fill="none" stroke="{VALID}" stroke-width="3"/>'
    )
    draw.text(x - 16, y - 12, "the best that is expected to qualify", colour=VALID, anchor="end")
    draw.text(200, 384, "400 candidates", colour=QUIET)
    draw.text((left + right) / 2, 516, "a parameter, such as a learning rate", colour=QUIET,
              anchor="middle")  # fmt: skip
    for x, kind in ((200, "valid"), (330, "invalid"), (480, "unchecked")):
        draw.symbol(kind, x, 542, 5)
        draw.text(x + 14, 547, kind)
    return draw.svg("How the search learns from every report and check", 566)


def picture_of_certificates() -> str:
    """What fresh data can say of a model."""
    draw = Drawing()
    draw.text(30, 38, "What certified means", **TITLE)
    left, limit, right = 230.0, 480.0, 640.0
    draw.box(limit, 62, right - limit, 262, CUT, "none")
    draw.line(f"M{limit} 62V324", INVALID, 2)
    draw.text(limit, 56, "limit", colour=INVALID, bold=True, anchor="middle")
    rows = (
        ("certified", "valid", 360.0, 450.0, "even the bound keeps the limit:", "promise it"),
        ("holds", "valid", 430.0, 535.0, "the value keeps it, the bound does", "not: perhaps luck"),
        ("broken", "invalid", 540.0, 620.0, "the value breaks it: this model is", "no answer"),
        ("unconfirmed", "unchecked", 400.0, 0.0, "nobody looked: only what", "the search measured"),
    )  # fmt: skip
    for n, (name, kind, value, bound, *words) in enumerate(rows):
        y = 96 + 66 * n
        draw.text(30, y + 6, name, size=17, bold=True)
        draw.line(f"M{left} {y}H{right}")
        if bound:
            draw.line(f"M{value} {y}H{bound}M{bound} {y - 9}v18", TEXT, 3)
        draw.symbol(kind, value, y, 8)
        draw.text(right + 16, y - 2, words[0])
        draw.text(right + 16, y + 18, words[1])
    draw.symbol("valid", 38, 352)
    draw.text(54, 357, "the value on data that the search never saw")
    draw.line("M380 352H404M404 343v18", TEXT, 3)
    draw.text(416, 357, "its bound, from a test that errs in at most 5 % of studies")
    return draw.svg("Certified, holds, broken and unconfirmed, by value, bound and limit", 378)


def picture_of_rooms() -> str:
    """The architecture."""
    draw = Drawing()
    begins = rooms(draw, 48)
    way_of_a_report(draw, begins)
    height = round(begins["core"] + WAY["core"][0] + 24)
    return draw.svg("The rooms of acetune in eight layers, and the way of a report", height)


PICTURES = {
    "strata.svg": picture_of_strata,
    "prices.svg": picture_of_prices,
    "search.svg": picture_of_search,
    "certified.svg": picture_of_certificates,
    "rooms.svg": picture_of_rooms,
}


def main() -> None:
    """Write the pictures."""
    for name, draw in PICTURES.items():
        (OUT / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
