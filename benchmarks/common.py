"""What the benchmarks share: how a result is laid out, and the memory of a process."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import NoReturn

from acetune.core.errors import AcetuneError

_RESULTS = Path(__file__).resolve().parent / "results"
PACKAGES = ("acetune", "ray", "optuna")
BEGAN = time.monotonic()


class Page:
    """Text that is printed and, at the end, written to ``benchmarks/results/<name>.md``."""

    def __init__(self, title: str, name: str, arguments: Sequence[str]) -> None:
        self._name = name
        self._lines: list[str] = []
        command = " ".join(["python", f"benchmarks/{name}.py", *arguments])
        self.add(f"# {title}", "", f"    {command}", "", versions(*PACKAGES), "")

    def add(self, *lines: str) -> None:
        """Add lines."""
        for line in lines:
            print(line, flush=True)
        self._lines += lines

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; all columns but the first are numbers."""
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [_cells(head, widths), _cells(["-" * widths[0], *_rules(widths[1:])], widths)]
        self.add(*lines, *(_cells(row, widths) for row in rows), "")

    def write(self, folder: Path | None) -> None:
        """Write the page; None for a run that is only a trial of the benchmark itself."""
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self._name}.md"
        path.write_text("\n".join(self._lines).rstrip() + "\n")
        say(f"written to {path}")


def _rules(widths: Sequence[int]) -> list[str]:
    return ["-" * (width - 1) + ":" for width in widths]


def _cells(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return f"| {' | '.join(cells)} |"


def results_folder(given: Path | None, quick: bool) -> Path | None:
    """Where the result goes; a quick run does not overwrite the committed one."""
    return given or (None if quick else _RESULTS)


def versions(*names: str) -> str:
    """One line on what was measured, and where; of these packages, those that are installed."""
    installed = {
        name: next(iter(metadata.Distribution.discover(name=name)), None) for name in names
    }
    packages = [f"{name} {found.version}" for name, found in installed.items() if found]
    python = f"Python {platform.python_version()}"
    return f"{', '.join([python, *packages])}; {platform.platform()}, {os.cpu_count()} CPUs"


def say(text: str) -> None:
    """A line of progress, on stderr."""
    print(f"[{time.monotonic() - BEGAN:6.0f} s] {text}", file=sys.stderr, flush=True)


def run_main(main: Callable[[Sequence[str]], None], stopped: str = "stopped") -> NoReturn:
    """Run a benchmark from the command line; errors that people can act on have no traceback."""
    try:
        main(sys.argv[1:])
    except AcetuneError as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        say(stopped)
        raise SystemExit(130) from None
    raise SystemExit


def rss_bytes() -> int:
    """Memory of this process now."""
    return _status_kib("VmRSS") * 1024


def peak_rss_bytes() -> int:
    """The most memory this process has had."""
    return _status_kib("VmHWM") * 1024


def _status_kib(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0])
    raise OSError(f"/proc/self/status has no {field}")


def tree_cpu_s() -> float:
    """CPU seconds of this process and all it has started, those that have ended included."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(") ")[2].split()
        except OSError:
            continue  # it has just ended
        pid = int(stat.parent.name)
        parents[pid], ticks[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    tree: set[int] = set()
    found = {os.getpid()}
    while found:
        tree |= found
        found = {pid for pid, parent in parents.items() if parent in found}
    return sum(ticks[pid] for pid in tree) / os.sysconf("SC_CLK_TCK")
