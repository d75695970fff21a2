"""Why trials ended."""

from __future__ import annotations

from collections import Counter

from acetune.core.formatting import count
from acetune.report.figures._drawing import Bar, Drawing, SmallTable, lying_bars, nothing
from acetune.report.figures._figure_data import FigureData
from acetune.report.figures._look import (
    BEST_OF_ALL,
    NEUTRAL,
    STRATA,
    STRATUM_COLOURS,
    STRATUM_PATTERNS,
)
from acetune.report.figures._values import safe, short
from acetune.study.result import count_reasons

_MOST = 8
_TITLE = "Why trials ended"


def reasons(digest: FigureData) -> Drawing:
    """How many trials ran to their end, and what ended the others."""
    trials = digest.view.trials
    if not trials:
        return nothing("reasons", _TITLE, "No trials yet.")
    counted: list[tuple[str, str, str, int]] = []  # state, reason, stratum, how many
    states: Counter[str] = Counter(row.state for row in trials)
    for state, text in (("finished", "ran to the end"), ("running", "still running")):
        if states[state]:
            counted.append((state, text, "", states[state]))
    for state, reason, n in count_reasons(trials):
        if state not in ("finished", "running"):
            stratum = str(reason.shared.get("stratum") or "")
            counted.append((state, reason.short or state, stratum, n))
    counted.sort(key=lambda entry: -entry[3])
    left_out = counted[_MOST:]
    bars = []
    for state, why, stratum, n in counted[:_MOST]:
        colour, pattern = _look(state, stratum)
        text = f"{n:,} ({n / len(trials):.0%})"
        bars.append(Bar(f"{_word(state)}{safe(why, 60)}", n, text, colour, pattern))
    if left_out:
        n = sum(entry[3] for entry in left_out)
        text = f"{n:,} ({n / len(trials):.0%})"
        bars.append(Bar(count(len(left_out), "other reason"), n, text, NEUTRAL))
    data, layout = lying_bars(bars)
    first = counted[0]
    stopped = sum(n for state, _, _, n in counted if state == "stopped")
    alt = (
        f"{stopped:,} of {count(len(trials), 'trial')} were stopped. Most often: "
        f"{_word(first[0])}{short(first[1], 64)} ({first[3]:,})."
    )
    caption = (
        "Trials by how they ended, the numbers in the reasons left out. A trial is stopped when "
        "its report is among the worst of its step and stratum, or by the rule of the policy."
    )
    rows = [[state, short(why, 100), f"{n:,}"] for state, why, _, n in counted[:30]]
    table = SmallTable(["state", "why", "trials"], rows)
    return Drawing("reasons", _TITLE, caption, alt, data, layout, table)


def _word(state: str) -> str:
    return "" if state in ("finished", "running") else f"{state}, "


def _look(state: str, stratum: str) -> tuple[str, str]:
    """The colour of the stratum that a reason speaks of, else by state."""
    if state == "stopped" and stratum in STRATA:
        which = STRATA.index(stratum)
        return STRATUM_COLOURS[which], STRATUM_PATTERNS[which]
    return (BEST_OF_ALL if state in ("finished", "stopped") else NEUTRAL), ""
