"""Tables as CSV: one row a trial, a report, a check."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from acetune.export.columns import (
    CHECKS,
    REPORTS,
    Column,
    Row,
    check_rows,
    trial_columns,
    trial_rows,
)
from acetune.export.gathered import Gathered, gathering
from acetune.export.places import replacing, require_free, table_files

if TYPE_CHECKING:
    from _csv import Writer

_REPORT_TIME = [column.name for column in REPORTS].index("time")


def to_csv(
    study: str | os.PathLike[str], output: str | os.PathLike[str], *, force: bool = False
) -> list[Path]:
    """Write a study as CSV; returns the files.

    Parameters
    ----------
    study:
        The study file; the study may be running.
    output:
        A name that ends in ``.csv``: the trials, one row each. Any other: a folder with
        ``trials.csv``, ``reports.csv``, ``checks.csv`` and ``study.json``, which has the goals,
        the policy, the settings and the confirmations.
    force:
        Overwrite these files where they exist.

    Cells hold the data as they are, in UTF-8, whatever a spreadsheet may take them for. Numbers
    are written in full; times are ISO 8601 in UTC. An empty cell is nothing: a value that is
    unknown, a parameter that the trial does not have, or one that is None.
    """
    paths = table_files(output, ".csv")
    if len(paths) > 1:
        paths.append(Path(output) / "study.json")
    require_free(paths, force=force)
    with gathering(Path(study)) as gathered, replacing(paths) as parts, ExitStack() as stack:
        files = [stack.enter_context(_open(part)) for part in parts]
        if len(files) > 1:
            _write_reports(gathered, files[1], files[2])
            json.dump(gathered.info, files[3], indent=2)
        _write_trials(gathered, files[0])
    return paths


def _write_reports(gathered: Gathered, reports: TextIO, checks: TextIO) -> None:
    report_lines, check_lines = _begin(reports, REPORTS), _begin(checks, CHECKS)

    def lines() -> Iterable[Row]:
        for row, checked in gathered.reports():
            if checked:
                check_lines.writerows(check_rows(row, checked))
            yield (*row[:_REPORT_TIME], _time(row.time), *row[_REPORT_TIME + 1 :])

    report_lines.writerows(lines())


def _write_trials(gathered: Gathered, file: TextIO) -> None:
    found = trial_columns(gathered)
    columns = [column for column, _ in found]
    lines = _begin(file, columns)
    for row in trial_rows(found, gathered):
        lines.writerow(
            [
                _time(cell) if column.kind == "time" else cell
                for column, cell in zip(columns, row, strict=True)
            ]
        )


def _begin(file: TextIO, columns: Iterable[Column]) -> Writer:
    # lines end as in RFC 4180: then the writer also quotes cells that hold half of such an end
    lines = csv.writer(file, lineterminator="\r\n")
    lines.writerow([column.name for column in columns])
    return lines


def _open(path: Path) -> TextIO:
    # half characters, which JSON can hold and UTF-8 cannot, are written out
    return path.open("w", encoding="utf-8", errors="backslashreplace", newline="")


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
