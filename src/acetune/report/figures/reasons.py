"""Why trials ended."""

from __future__ import annotations

from collections import Counter

from acetune.core.words import count
from acetune.report.figures.bars import Bar, lying_bars
from acetune.report.figures.digest import Digest
from acetune.report.figures.drawing import Drawing, SmallTable, nothing
from acetune.report.figures.look import BEST_OF_ALL, NEUTRAL, STRATA, STRATUM_COLOURS
from acetune.report.figures.words import safe, short
from acetune.study.reasons import count_reasons

_MOST = 8
_TITLE = "Why trials ended"
_PATTERNS = {"unchecked": ".", "invalid": "/", "valid": ""}


def reasons(digest: Digest) -> Drawing:
    """How many trials ran to their end, and what ended the others."""
    trials = digest.view.trials
    if not trials:
        return nothing("reasons", _TITLE, "No trials yet.")
    found = Counter((row.state, row.reason) for row in trials)
    counted: list[tuple[str, str, int]] = []  # state, reason, how many
    for state in ("finished", "stopped", "failed", "interrupted", "rejected", "running"):
        rows = [
            {"state": state, "reason": reason, "n": n}
            for (its_state, reason), n in found.items()
            if its_state == state
        ]
        if state in ("finished", "running") and rows:
            text = "ran to the end" if state == "finished" else "still running"
            counted.append((state, text, sum(int(str(row["n"])) for row in rows)))
        elif rows:
            counted += [(state, why or state, n) for why, n in count_reasons(rows).items()]
    counted.sort(key=lambda entry: -entry[2])
    left_out = counted[_MOST:]
    bars = []
    for state, why, n in counted[:_MOST]:
        colour, pattern = _look(state, why)
        text = f"{n:,} ({n / len(trials):.0%})"
        label = why.replace("in the worst", "worst").replace(" reports at its step", "")
        bars.append(Bar(f"{_word(state)}{safe(label, 40)}", n, text, colour, pattern))
    if left_out:
        n = sum(entry[2] for entry in left_out)
        text = f"{n:,} ({n / len(trials):.0%})"
        bars.append(Bar(count(len(left_out), "other reason"), n, text, NEUTRAL))
    data, layout = lying_bars(bars)
    first = counted[0]
    stopped = sum(n for state, _, n in counted if state == "stopped")
    alt = (
        f"{stopped:,} of {count(len(trials), 'trial')} were stopped. Most often: "
        f"{_word(first[0])}{short(first[1], 64)} ({first[2]:,})."
    )
    caption = (
        "Trials by how they ended, the numbers in the reasons left out. A trial is stopped when "
        "its report is among the worst of its step and stratum, or by the rule of the policy."
    )
    table = SmallTable(
        ["state", "why", "trials"], [[s, short(why, 100), f"{n:,}"] for s, why, n in counted[:30]]
    )
    return Drawing("reasons", _TITLE, caption, alt, data, layout, table)


def _word(state: str) -> str:
    return "" if state in ("finished", "running") else f"{state}, "


def _look(state: str, why: str) -> tuple[str, str]:
    """The colour of the stratum that a reason speaks of, else by state."""
    if state == "stopped":
        for stratum, colour in zip(STRATA, STRATUM_COLOURS, strict=True):
            if f" {stratum} reports" in why:
                return colour, _PATTERNS[stratum]
    return (BEST_OF_ALL if state in ("finished", "stopped") else NEUTRAL), ""
