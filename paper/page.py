"""Pages of results: Markdown with tables, and the words for agreement."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from acetune.core.errors import AcetuneError
from acetune.replay.runs import Summary
from acetune.replay.statistics import Interval

Drawn: TypeAlias = dict[Path | str, Any]  # the figures of a page, by their files


ACE = "ACE, the policy of the paper, beside others"
ACE2 = "ACE2, the default policy when it was made, beside others"


def head_note(policy: str) -> str:
    """A paragraph for the head of a page: which policy it is about."""
    return (
        f"This page is about {policy}. The default of `tune()` has changed since, to `adaptive` "
        "with the searcher `forest`: [how it does on public tasks](population.md)."
    )


class Page:
    """A Markdown page that grows from top to bottom."""

    def __init__(self, title: str) -> None:
        self._parts = [f"# {title}"]

    def heading(self, text: str) -> None:
        """A section begins."""
        self._parts.append(f"## {text}")

    def text(self, *paragraphs: str) -> None:
        """Plain paragraphs."""
        self._parts += paragraphs

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table; every column but the first is a column of numbers."""
        lines = [_line(header), _line(["---", *["---:"] * (len(header) - 1)])]
        lines += [_line(row) for row in rows]
        self._parts.append("\n".join(lines))

    def picture(self, path: Path, caption: str) -> None:
        """A picture that lies beside the page."""
        if path.suffix == ".html":
            self._parts.append(f"[{caption}]({path.name})")
        else:
            self._parts.append(f"![{caption}]({path.name})")

    def write(self, path: Path) -> None:
        """To a file."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n\n".join(self._parts) + "\n", encoding="utf-8")
        except OSError as error:
            raise AcetuneError(f"cannot write {path}: {error.strerror}") from None


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def percent(value: float | None, digits: int = 2) -> str:
    """A share as per cent, a dash where there is none."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def mean_text(found: Summary) -> str:
    """Mean and standard deviation over the seeds that found something, in per cent."""
    return percent(found.mean) + ("" if found.sd is None else f" ± {percent(found.sd)}")


def interval_text(interval: Interval | None) -> str:
    """The ends of an interval, in per cent."""
    if interval is None:
        return "-"
    return f"{percent(interval.low)} to {percent(interval.high)}"


def difference_text(interval: Interval | None) -> str:
    """A difference with its interval, in per cent points."""
    if interval is None:
        return "-"
    mean, low, high = (100 * value for value in interval)
    return f"{mean:+.2f} ({low:+.2f} to {high:+.2f})"


def verdict(paper: float | None, ours: Interval | None) -> str:
    """Whether a difference of ours agrees with the paper's."""
    if ours is None:
        return "too few found something"
    if ours.low <= 0 <= ours.high:
        return "not told apart"
    if paper is None:
        return "ours alone"
    if paper == 0:
        return "differs (paper: equal)"
    return "agrees" if (paper > 0) == (ours.mean > 0) else "**disagrees**"
