"""Draw what a terminal shows while a study runs: `python tools/make_cast.py` writes docs/cast.svg.

It runs `acetune demo` in a terminal that nobody sees, looks at it four times a second, and draws
each line for as long as it stood there. It plays once; where reduced motion is asked for, it shows
the end. Needs tmux.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.console import Console
from rich.text import Text
from screenshots import COLUMNS, TMUX, terminal

OUT = Path(__file__).resolve().parent.parent / "docs" / "cast.svg"
SECONDS = 25.0  # that the demo tunes
LINES = 42
PAUSE = 0.8  # the longest that nothing changes in the picture
WIDE, HIGH, LEFT, TOP = 8.0, 18, 18, 52  # of a letter and a line; where the text begins
STYLE = """
svg{--ground:#fff;--text:#1e1e1e;--quiet:#666;--line:#c4c4c4;--good:#007a59;--bad:#b84a00}
@media (prefers-color-scheme:dark){svg{--ground:#16181d;--text:#ececec;--quiet:#a8a8a8;
--line:#4a4d55;--good:#3ecf9f;--bad:#ff9a5c}}
text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:var(--text);white-space:pre}
.b{font-weight:600}.q{fill:var(--quiet)}.g{fill:var(--good)}.r{fill:var(--bad)}
.f{opacity:0;animation:stage linear}.l{animation:show .01s both}
@keyframes show{from{opacity:0}}@keyframes stage{0%,100%{opacity:1}}
@media (prefers-reduced-motion:reduce){*{animation:none!important}}
"""


class Stood(NamedTuple):
    """A line of the terminal, and from when to when it stood there."""

    row: int
    words: str  # with the terminal's codes for colours
    begin: float
    end: float | None  # None: to the end


def main() -> None:
    """Run the demo and draw it."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"{sys.executable} -m acetune demo --seconds {SECONDS:g}"
        with terminal(command, Path(folder), LINES):
            screens = list(watch(Path(folder) / "demo.html"))
    OUT.write_text(picture(screens), encoding="utf-8")


def watch(report: Path) -> Iterator[tuple[float, list[str]]]:
    """What is on the screen, and when, until the report is written."""
    begin = time.monotonic()
    seen: list[str] = []
    while True:
        over = report.exists()
        shown = subprocess.run(
            [*TMUX, "capture-pane", "-e", "-p"], check=True, capture_output=True, text=True
        ).stdout.rstrip()
        lines = ["$ acetune demo", *shown.splitlines()]
        if lines != seen:
            seen = lines
            yield time.monotonic() - begin, lines
        if over:
            return
        if time.monotonic() - begin > 20 * SECONDS:
            raise TimeoutError("the demo does not end")
        time.sleep(0.25)


def picture(screens: list[tuple[float, list[str]]]) -> str:
    """The SVG."""
    stood = list(lines(shortened(screens)))
    rows = max(one.row for one in stood if one.end is None) + 1
    height = TOP + HIGH * max(rows, 12) + 8
    width = round(2 * LEFT + WIDE * COLUMNS)
    last = " / ".join(line(words)[0] for words in screens[-1][1][:3])
    drawn = "\n".join(draw(one) for one in stood if one.row < max(rows, 12))
    label = escape(f"A terminal in which acetune demo runs. {last}", {'"': "&quot;"})
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{label}">\n<style>{STYLE}</style>\n'
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="10" '
        'fill="var(--ground)" stroke="var(--line)"/>\n'
        + "".join(
            f'<circle cx="{22 + 18 * n}" cy="20" r="5.5" fill="var(--line)"/>' for n in range(3)
        )
        + f"\n{drawn}\n</svg>\n"
    )


def shortened(screens: list[tuple[float, list[str]]]) -> Iterator[tuple[float, list[str]]]:
    """The same without waiting."""
    before, now = screens[0][0], 0.0
    for when, screen in screens:
        now, before = now + min(when - before, PAUSE), when
        yield now, screen


def lines(screens: list[tuple[float, list[str]]]) -> Iterator[Stood]:
    """Each line, for as long as it stood."""
    shown: dict[int, tuple[str, float]] = {}
    for when, screen in screens:
        for row in range(LINES + 1):
            words = screen[row] if row < len(screen) else ""
            before, since = shown.get(row, ("", 0.0))
            if words != before:
                if before.strip():
                    yield Stood(row, before, since, when)
                shown[row] = (words, when)
    for row, (words, since) in shown.items():
        if words.strip():
            yield Stood(row, words, since, None)


def line(words: str) -> tuple[str, list[tuple[int, str, str]]]:
    """The text of a line, and its parts: where they begin, what they say, how they look."""
    found, at = [], 0
    console = Console(width=COLUMNS)
    for part, style, _ in Text.from_ansi(words, end="").render(console):
        look = ["b"] if style and style.bold else []
        if style and style.dim:
            look.append("q")
        elif style and style.color and style.color.triplet is None and style.color.number:
            look += {1: ["r"], 2: ["g"], 3: ["r"], 9: ["r"], 10: ["g"]}.get(style.color.number, [])
        if part.strip():
            found.append((at, part.rstrip(), " ".join(look)))
        at += len(part)
    return "".join(part for _, part, _ in found), found


def draw(one: Stood) -> str:
    """A line as SVG."""
    kind, timing = "l", f"animation-delay:{one.begin:.2f}s"
    if one.end is not None:
        kind, timing = "f", f"{timing};animation-duration:{one.end - one.begin:.2f}s"
    y = TOP + HIGH * one.row
    parts = "".join(
        f'<text x="{LEFT + WIDE * at:g}" y="{y}" textLength="{WIDE * len(words):g}"'
        + (f' class="{look}"' if look else "")
        + f">{escape(words)}</text>"
        for at, words, look in line(one.words)[1]
    )
    return f'<g class="{kind}" style="{timing}">{parts}</g>'


if __name__ == "__main__":
    main()
