"""What people see of a study: progress in a terminal, a log or a notebook, and its summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from html import escape
from importlib import import_module
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from acetune.core.formatting import count, duration, harmless, number
from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.run.study_callbacks import StudyCallback, StudyStatus
from acetune.study.result import StudyResult
from acetune.study.summary import STATES, summary_rows

_LINE_EVERY_S = 10.0
_MOST_NOTICES = 20  # in a notebook: the latest ones


def make_progress(console: Console | None = None) -> StudyCallback:
    """Live progress on a terminal and in a notebook, plain lines elsewhere."""
    if console is None and _in_notebook():
        return NotebookProgress()
    console = console or Console(stderr=True)
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


class LiveProgress(StudyCallback):
    """A few lines that stay in place: time left, trials by state, strata, best feasible so far."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._status: StudyStatus | None = None

    def on_start(self, status: StudyStatus) -> None:
        """Begin to draw."""
        self._status = status
        if status.trials:
            self._console.print(_goes_on(status), markup=False, highlight=False)
        self._live = Live(self._render(), console=self._console, auto_refresh=False, transient=True)
        self._live.start()

    def on_tick(self) -> None:
        """Draw anew."""
        if self._live is not None:
            self._live.update(self._render(), refresh=True)

    def on_notice(self, text: str) -> None:
        """Show a notice above the progress."""
        self._console.print(Text(f"note: {harmless(text)}", style="yellow"))

    def on_end(self) -> None:
        """Leave the terminal as it was."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if self._status is not None:
            line = f"acetune: {_last(self._status)}"
            self._console.print(line, markup=False, highlight=False)

    def _render(self) -> RenderableType:
        status = self._status
        assert status is not None  # set by on_start, before anything is drawn
        done, left = _progress(status)
        bar = Table.grid(padding=(0, 2))
        bar.add_row(ProgressBar(total=1.0, completed=done, width=30), left)
        grid = Table.grid(padding=(0, 2))
        grid.add_row("budget", bar)
        for name, text in _counts_and_best(status).items():
            grid.add_row(name, text)
        return grid


class NotebookProgress(StudyCallback):
    """The same in a notebook: one output of the cell, which is updated in place."""

    def __init__(self) -> None:
        self._status: StudyStatus | None = None
        self._notices: list[str] = []
        self._handle: Any = None
        self._shown: dict[str, str] | None = None

    def on_start(self, status: StudyStatus) -> None:
        """Begin to show."""
        self._status = status
        if status.trials:
            self._notices.append(_goes_on(status))
        self.on_tick()

    def on_tick(self) -> None:
        """Show how the study stands."""
        if self._status is not None:
            done, left = _progress(self._status)
            bar = f'<progress max="1" value="{done:.2f}"></progress> '
            self._show({"budget": left, **_counts_and_best(self._status)}, bar)

    def on_notice(self, text: str) -> None:
        """A notice, below the progress."""
        self._notices = [*self._notices, f"note: {text}"][-_MOST_NOTICES:]
        self.on_tick()

    def on_end(self) -> None:
        """The last state."""
        if self._status is not None:
            self._show({"acetune": _last(self._status)})

    def _show(self, rows: Mapping[str, str], bar: str = "") -> None:
        cells = [
            f'<tr><th style="text-align:left">{escape(name)}</th>'
            f'<td style="text-align:left">{bar if name == "budget" else ""}{escape(text)}</td></tr>'
            for name, text in rows.items()
        ]
        notices = [f"<div>{escape(text)}</div>" for text in self._notices]
        lines = [*(f"{name}: {text}" for name, text in rows.items()), *self._notices]
        shown = {
            "text/html": f"<table>{''.join(cells)}</table>{''.join(notices)}",
            "text/plain": "\n".join(lines),
        }
        if shown == self._shown:
            return
        self._shown = shown
        if self._handle is None:
            display = import_module("IPython.display").display
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


class PlainProgress(StudyCallback):
    """One line now and then, and one for each new best: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: StudyStatus | None = None
        self._last_line = 0.0
        self._last_best: float | None = None

    def on_start(self, status: StudyStatus) -> None:
        """Say that the study begins, or goes on."""
        self._status = status
        self._last_line = time.monotonic()
        if status.trials:
            self._line(_goes_on(status).removeprefix("acetune: "))

    def on_tick(self) -> None:
        """A line if there is a new best, or if it has been a while."""
        status = self._status
        if status is None:
            return
        best = None if status.best is None else status.best.value
        if best != self._last_best or time.monotonic() - self._last_line > _LINE_EVERY_S:
            self._last_best = best
            self._last_line = time.monotonic()
            self._line(f"{_progress(status)[1]}; trials {_trials(status)}; best {_best(status)}")

    def on_notice(self, text: str) -> None:
        """A notice."""
        self._line(f"note: {text}")

    def on_end(self) -> None:
        """The last state."""
        if self._status is not None:
            self._line(_last(self._status))

    def _line(self, text: str) -> None:
        line = f"acetune: {harmless(text)}"
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, which can update what it has shown."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def _counts_and_best(status: StudyStatus) -> dict[str, str]:
    return {"trials": _trials(status), "reports": _strata(status), "best": _best(status)}


def _goes_on(status: StudyStatus) -> str:
    again = status.by_state.get("interrupted", 0)
    verb = "is" if again == 1 else "are"
    more = f"; {count(again, 'interrupted trial')} {verb} taken up again" if again else ""
    spent = duration(status.elapsed_s)
    return f"acetune: goes on after {count(status.trials, 'trial')} and {spent}{more}"


def _progress(status: StudyStatus) -> tuple[float, str]:
    """How much of the budget is spent (0 to 1), and what is left, in words."""
    shares, words = [0.0], []
    if status.time_budget_s is not None:
        shares.append(status.elapsed_s / status.time_budget_s)
        left = max(0.0, status.time_budget_s - status.elapsed_s)
        words.append(f"{duration(left)} left")
    else:
        words.append(duration(status.elapsed_s))
    if status.max_trials is not None:
        shares.append((status.trials - status.by_state.get("running", 0)) / status.max_trials)
        words.append(f"{status.trials} of {status.max_trials} trials started")
    return min(1.0, max(shares)), ", ".join(words)


def _trials(status: StudyStatus) -> str:
    counts = status.by_state
    return ", ".join(f"{counts[s]} {s}" for s in STATES if counts.get(s)) or "none yet"


def _last(status: StudyStatus) -> str:
    """The state at the end; what fresh data said of the best is for the summary to tell."""
    return f"trials {_trials(status)}; best in the search: {_best(status)}"


def _strata(status: StudyStatus) -> str:
    strata = status.strata
    shown = ", ".join(f"{strata[name]} {name}" for name in ("valid", "invalid", "unchecked"))
    return f"{shown}; {status.check_share:.0%} of the time on checks"


def _best(status: StudyStatus) -> str:
    goals = status.goals
    if status.best is not None:
        shown = _values(goals, status.best.constraints)
        where = f"trial {status.best.trial} step {status.best.step}"
        return harmless(f"{goals.objective.name} {number(status.best.value)}{shown} ({where})")
    # a checkpoint whose check failed misses by nobody knows how much
    miss = status.nearest_miss
    if miss is not None and not any(isinstance(m, FailedCheck) for m in miss.constraints.values()):
        # with a margin that acetune has chosen others may break no limit, and be the answer
        aimed = any(limit.margin_is_auto and limit.margin for limit in goals.constraints)
        which = "none safe enough yet; nearest" if aimed else "none feasible yet; nearest miss"
        return f"{which}{_values(goals, miss.constraints, limits=True)}"
    return "none feasible yet"


def _values(
    goals: Goals, measured: Mapping[str, Estimate | FailedCheck], *, limits: bool = False
) -> str:
    shown = ""
    for constraint in goals.constraints:
        found = measured.get(constraint.name)
        if isinstance(found, Estimate):
            shown += f", {constraint.name} {number(found.value, 4)}"
            if limits:
                shown += f" (limit {constraint.sense} {number(constraint.limit, 6)})"
    return harmless(shown)


def summary(result: StudyResult) -> RenderableType:
    """The result as a table, best first."""
    title = Text(f"study {harmless(result.study.name)}", style="table.title")
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in summary_rows(result):
        table.add_row(name, Text(text))
    return table


def progress_bar() -> Progress:
    """A bar with the time that is left, on standard error, which goes away when all is done."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
