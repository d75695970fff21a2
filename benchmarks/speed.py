"""A result of a benchmark of speed: figures with their source, and the tables around them."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import BEGAN, PACKAGES, Page, say, tree_cpu_s, versions
from benchmarks.source_hash import source_hash


class SpeedPage(Page):
    """A page that is written as ``benchmarks/results/<name>.json``, with the figures on it.

    ``tools/make_speed_page.py`` makes one page of all of them.

    Parameters
    ----------
    title, name:
        Of the page, and of the script.
    arguments:
        The script was called with these.
    measures:
        What the figures depend on: source files, as patterns below ``src/acetune/`` without
        ``.py``. Once one of them has changed, the figures are marked as measured on older code.
    """

    def __init__(
        self, title: str, name: str, arguments: Sequence[str], measures: Sequence[str]
    ) -> None:
        super().__init__(title, name, arguments)
        self._heading = len(self._lines)
        self._figures: list[dict[str, Any]] = []
        self._about = {
            "title": title,
            "command": " ".join([f"python benchmarks/{name}.py", *arguments]),
        }
        self._measures = [*(f"src/acetune/{files}" for files in measures), f"benchmarks/{name}"]
        self._busy_before = _busy_s() - tree_cpu_s()

    def figure(
        self,
        name: str,
        what: str,
        ours: Sequence[float],
        unit: str,
        *,
        peer: str | None = None,
        peers: Sequence[float] = (),
        ratios: Sequence[float] = (),
        most: float | None = None,
        least: float | None = None,
    ) -> None:
        """Note a figure: one value per round, and the same of a peer.

        ``name`` is what documents refer to it by. ``ratios`` are ours over the peer's, by default
        those within each round. At ``most`` or at ``least`` so much is wanted: of the ratio where
        there is a peer, else of ours.
        """
        if peer and not ratios:
            ratios = [a / b for a, b in zip(ours, peers, strict=True)]
        judged = statistics.median(ratios or ours)
        wanted = None if most is None and least is None else {"most": most, "least": least}
        reached = (most is None or judged <= most) and (least is None or judged >= least)
        self._figures.append(
            {
                "name": name,
                "what": what,
                "unit": unit,
                "ours": _spread(ours),
                "peer": {"name": peer, **_spread(peers)} if peer else None,
                "ratio": _spread(ratios) if ratios else None,
                "wanted": wanted,
                "reached": None if wanted is None else reached,
            }
        )
        word = "" if wanted is None else "reached: " if reached else "not reached: "
        beside = f", {statistics.median(ratios):.3g} times {peer}" if peer else ""
        bounds = "".join(
            f", wanted at {bound} {value:g}"
            for bound, value in (wanted or {}).items()
            if value is not None
        )
        print(f"- {word}{what}: {statistics.median(ours):.4g} {unit}{beside}{bounds}", flush=True)

    def write(self, folder: Path | None) -> None:
        """Write the result; None for a run that is only a trial of the benchmark itself."""
        if folder is None:
            return
        seconds = time.monotonic() - BEGAN
        others = _busy_s() - tree_cpu_s() - self._busy_before
        found = self._about | {
            "versions": versions(*PACKAGES),
            "made": time.strftime("%Y-%m-%d", time.gmtime()),
            "seconds": round(seconds),
            "beside": round(max(0.0, others) / seconds / (os.cpu_count() or 1), 3),
            "measures": self._measures,
            "code": source_hash(self._measures),
            "figures": self._figures,
            "details": self._lines[self._heading :],
        }
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._name}.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        say(f"written to {path}")


def _spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range of the rounds, in as many digits as are worth keeping."""
    named = {"median": statistics.median(values), "low": min(values), "high": max(values)}
    return {name: float(f"{value:.4g}") for name, value in named.items()}


def _busy_s() -> float:
    """Seconds that the processors of this machine were at work, for anybody."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _, _, interrupts, soft, stolen = fields
    ticks = user + nice + system + interrupts + soft + stolen
    return ticks / os.sysconf("SC_CLK_TCK")
