"""What can be asked of a study file."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from acetune.core.errors import StudyFileError
from acetune.core.reason import Wording
from acetune.study._formats import Reasons, read_wordings
from acetune.study._validation import read_candidates
from acetune.study.integrity import understanding
from acetune.study.table_rows import CheckRow, EarlierTrial, KeptRow, ReportRow, TrialRow
from acetune.trial.artifacts import (
    Kept,
    OutsideError,
    confined,
    is_in_experiment,
    require_kept_name,
)

_new = tuple.__new__  # of a row: half the time of calling the class
_AT_ONCE = 10_000  # numbers in a query; SQLite takes 32,766


class Queries:
    """What an open study file is asked; :class:`acetune.study.store.Store` opens and writes it."""

    path: Path
    _db: sqlite3.Connection
    _lock: int | None  # of a writer
    _experiment: Path | None

    @property
    def files(self) -> Path:
        """The folder beside the study file for models, checkpoints and logs."""
        file = self.path.resolve() if self.path.is_symlink() else self.path
        return file.with_name(file.name + ".files")

    def understanding(self) -> AbstractContextManager[None]:
        """A block that only reads: if something goes wrong in it, the file holds nonsense."""
        return understanding(self.path)

    def study(self) -> dict[str, Any]:
        """The one row of ``study``."""
        return self.rows("SELECT * FROM study")[0]

    def rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[dict[str, Any]]:
        """The rows of a query as dicts."""
        cursor = self._db.execute(sql, values)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def wordings(self) -> dict[str, Wording]:
        """What the codes of reasons mean."""
        return read_wordings(self._db)

    def reasons(self) -> Reasons:
        """Why trials and sessions ended, and when trials are checked, by their columns."""
        return Reasons(self.wordings())

    def names(self) -> dict[str, int]:
        """Trials by the names that another engine gave them: most studies have none."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'names'"):
            return {}
        return dict(self._db.execute("SELECT name, trial FROM names"))

    def hardware(self) -> dict[tuple[int, int], str]:
        """What attempts ran on, by trial and attempt, as far as it was noted."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'hardware'"):
            return {}
        rows = self._db.execute("SELECT trial, attempt, description FROM hardware")
        return {(trial, attempt): description for trial, attempt, description in rows}

    def waited(self) -> float:
        """Seconds that all attempts have waited, because checks are measured alone."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'waits'"):
            return 0.0
        return float(
            self._db.execute("SELECT coalesce(sum(seconds), 0.0) FROM waits").fetchone()[0]
        )

    def earlier_studies(self) -> dict[str, str]:
        """The studies that this one learns from: digests of their trials, by path."""
        if not self.rows("SELECT 1 FROM sqlite_master WHERE name = 'earlier_studies'"):
            return {}
        return dict(self._db.execute("SELECT path, digest FROM earlier_studies"))

    def earlier_trials(self) -> list[EarlierTrial]:
        """Their trials."""
        if not self.earlier_studies():
            return []
        sql = (
            "SELECT params, total_steps, ended, reports, checks FROM earlier_trials ORDER BY place"
        )
        return [EarlierTrial(*row) for row in self._db.execute(sql)]

    def reports(self, last: int | None = None) -> Iterator[tuple[ReportRow, list[CheckRow]]]:
        """All reports in the order they were acknowledged, each with its checks.

        ``last`` is the number of the last one: others may have come since somebody looked.
        """
        checks = self._db.execute("SELECT * FROM checks ORDER BY seq")
        ahead = checks.fetchone()
        upto = (2**63 - 1 if last is None else last,)
        for values in self._db.execute("SELECT * FROM reports WHERE seq <= ? ORDER BY seq", upto):
            row = _new(ReportRow, values)
            if values[5] is None:  # SQLite has no NaN
                row = row._replace(objective=math.nan)
            found = []
            while ahead is not None and ahead[0] == row.seq:
                found.append(CheckRow(*ahead[1:]))
                ahead = checks.fetchone()
            yield row, found

    def attempts(self) -> list[TrialRow]:
        """All attempts of all trials, in order."""
        reasons = self.reasons()
        return [TrialRow.read(values, reasons) for values in self.trial_values()]

    def trial_values(self) -> list[tuple[Any, ...]]:
        """The same as the file has it: for those who read only what has changed."""
        return self._db.execute(
            "SELECT trial, attempt, params, total_steps, interval, cost_ratio, resumed_from, "
            "state, startup_cost_s, started, ended, reason, reason_numbers, schedule, "
            "schedule_numbers FROM trials ORDER BY trial, attempt"
        ).fetchall()

    def traceback(self, trial: int, attempt: int) -> str | None:
        """Of the error that an attempt ended with, if it did."""
        sql = "SELECT traceback FROM trials WHERE trial = ? AND attempt = ?"
        found: tuple[str | None] = self._db.execute(sql, (trial, attempt)).fetchone()
        return found[0]

    def rejected(self) -> dict[int, dict[str, Any]]:
        """The parameters of the trials that break a limit on the configuration."""
        rows = self._db.execute("SELECT trial, params FROM trials WHERE state = 'rejected'")
        return {trial: json.loads(params) for trial, params in rows}

    def has_measured(self, constraints: int) -> bool:
        """Whether any check has given a finite number for so many constraints."""
        sql = (
            "SELECT 1 FROM reports JOIN checks USING (seq) WHERE violation < 9e999 "
            "GROUP BY seq HAVING count(*) = ? LIMIT 1"
        )
        return self._db.execute(sql, (constraints,)).fetchone() is not None

    def reports_at(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of ``reports`` with these numbers (``seq``), in order."""
        return self._numbered("reports", numbers)

    def checks_at(self, numbers: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of ``checks`` that belong to reports with these numbers, in their order."""
        return self._numbered("checks", numbers)

    def _numbered(self, table: str, numbers: Sequence[int]) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for first in range(0, len(numbers), _AT_ONCE):
            some = tuple(numbers[first : first + _AT_ONCE])
            marks = ", ".join("?" * len(some))
            found += self.rows(f"SELECT * FROM {table} WHERE seq IN ({marks}) ORDER BY seq", some)
        return found

    def first_failed_check(self) -> tuple[int, str, str] | None:
        """Trial, constraint and error of the first check that gave no number.

        Not of one that was left out because of another.
        """
        found: tuple[int, str, str] | None = self._db.execute(
            'SELECT trial, "constraint", error FROM checks JOIN reports USING (seq) '
            "WHERE value IS NULL ORDER BY seq, cost_s IS NULL LIMIT 1"
        ).fetchone()
        return found

    def kept(self, where: str = "", values: tuple[Any, ...] = ()) -> list[KeptRow]:
        """Models and resumable states, by trial, attempt and step.

        Each path is that of its own row, inside the folder of the study: a file that says
        something else is refused, since what it names would be loaded, or deleted.
        """
        sql = (
            "SELECT c.*, EXISTS (SELECT 1 FROM trials t WHERE t.trial = c.trial "
            f"AND t.attempt = c.attempt) AS known FROM checkpoints c {where} "
            "ORDER BY trial, attempt, step"
        )
        return [self.understood(row) for row in self.rows(sql, values)]

    def understood(self, row: Mapping[str, Any]) -> KeptRow:
        """A row of ``checkpoints`` whose path was found to be where it has to be."""
        trial, attempt, step, kind = (row[c] for c in ("trial", "attempt", "step", "kind"))
        try:
            folder = self.kept_folder(trial, attempt, step, kind, row["path"])
            for column in ("trial", "attempt", "step", "bytes"):
                if type(row[column]) is not int:  # a column of SQLite's may hold anything
                    raise OutsideError(f"{row[column]!r} is no {column}")
            if not row.get("known", True):
                raise OutsideError(f"there is no attempt {attempt} of trial {trial}")
        except (OutsideError, TypeError, ValueError) as error:
            raise StudyFileError(
                f"{self.path} is damaged or was tampered with: its table checkpoints names "
                f"{row['path']!r} ({error}); nothing outside the study's own folder was touched"
            ) from None
        return KeptRow(trial, attempt, step, kind, Kept(folder, row["bytes"], row.get("digest")))

    def root_of(self, folder: Path) -> Path:
        """The folder that a kept one must lie in: the study's, or that of a Ray experiment."""
        if self._experiment is not None and not folder.is_relative_to(self.files):
            return self._experiment
        return self.files

    def kept_folder(self, trial: int, attempt: int, step: int, kind: str, path: str) -> Path:
        """Where a model or a resumable state lies; raises OutsideError if it may not lie there."""
        root, inside = self.files, path
        experiment = self._experiment
        if experiment is None and self._lock is None:  # a reader: it deletes nothing
            experiment = self.files.parent
        if experiment is not None and kind == "model":
            with contextlib.suppress(ValueError):  # earlier versions wrote the whole path
                inside = str(Path(path).relative_to(experiment.resolve()))
            if is_in_experiment(inside, step):
                confined(experiment, experiment / inside)
                return experiment / inside
        require_kept_name(trial, attempt, step, kind, path)
        confined(root, root / path)
        return root / path

    def since(self, trial: int, checked_step: int) -> tuple[int, float]:
        """Trials that have ended, and seconds searched, since a checkpoint was found valid."""
        found = self._db.execute(
            "SELECT min(time) FROM reports WHERE trial = ? AND checked_step = ? "
            "AND stratum = 'valid'",
            (trial, checked_step),
        ).fetchone()[0]
        if found is None:
            return 0, 0.0
        ended = self._db.execute(
            "SELECT count(*) FROM trials AS t WHERE ended > ? "
            "AND state IN ('finished', 'stopped', 'failed') AND attempt = "
            "(SELECT max(attempt) FROM trials WHERE trial = t.trial)",
            (found,),
        ).fetchone()[0]
        seconds = self._db.execute(
            "SELECT coalesce(sum(max(0.0, min(search_s, started + search_s - ?))), 0.0) "
            "FROM sessions",
            (found,),
        ).fetchone()[0]
        return int(ended), float(seconds)

    def searched(self) -> float:
        """Seconds that all sessions have searched: what counts against the budget."""
        found = self._db.execute("SELECT coalesce(sum(search_s), 0.0) FROM sessions").fetchone()
        return float(found[0])

    def looks(self) -> list[dict[str, Any]]:
        """All looks at fresh data, with their candidates decoded."""
        return decoded_looks(self.rows("SELECT * FROM looks ORDER BY look"))

    def waiting_change(self) -> int | None:
        """The change of a check after which kept models wait to be measured again, if any."""
        found = self._db.execute("SELECT max(change) FROM check_changes WHERE done IS NULL")
        change: int | None = found.fetchone()[0]
        return change

    def judged_anew(self) -> int:
        """The last report that was decided on under other limits than those of now; 0: none."""
        found = self._db.execute("SELECT coalesce(max(seq), 0) FROM limit_changes").fetchone()
        return int(found[0])

    def limit_changes(self) -> list[dict[str, Any]]:
        """With which other limits the study went on, what they were and what has changed."""
        return decoded_limit_changes(self.rows("SELECT * FROM limit_changes ORDER BY change"))

    def checked_before(self) -> dict[int, tuple[int, float]]:
        """Step and objective of checkpoints that count as unchecked, by the ``seq`` of the report.

        Not all of their constraints were measured, and what was holds by the current limits.
        """
        found = self._db.execute(
            "SELECT e.seq, e.checked_step, e.checked_objective FROM earlier_verdicts e "
            "JOIN reports r USING (seq) WHERE r.stratum = 'unchecked' AND e.checked_step NOT NULL "
            "ORDER BY change"
        )
        return {seq: (step, value) for seq, step, value in found}

    def verdicts_then(self, numbers: Sequence[int]) -> dict[int, str]:
        """In which stratum reports were when they were decided on, where they were judged anew."""
        rows = self._numbered("earlier_verdicts", numbers)
        return {row["seq"]: row["stratum"] for row in sorted(rows, key=lambda r: -r["change"])}

    def earlier_checks_by_place(self) -> list[tuple[int, str]]:
        """How far beyond the limits trials of other studies lie, and where that is."""
        return self._db.execute("SELECT place, checks FROM earlier_trials").fetchall()

    def measured_constraints(self) -> set[str]:
        """The constraints of which a check has given a number."""
        sql = 'SELECT DISTINCT "constraint" FROM checks WHERE value IS NOT NULL'
        return {name for (name,) in self._db.execute(sql)}

    def checked(self) -> set[tuple[int, int, int]]:
        """Trial, attempt and step of all checkpoints that were checked."""
        sql = "SELECT trial, attempt, checked_step FROM reports WHERE checked_step NOT NULL"
        return set(self._db.execute(sql))


def decoded_looks(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of ``looks`` whose candidates are tuples of trial, attempt and step."""
    return [{**row, "candidates": read_candidates(row["candidates"])} for row in rows]


def decoded_limit_changes(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of ``limit_changes`` with their JSON decoded."""
    return [
        {**row, "earlier": json.loads(row["earlier"]), "what": json.loads(row["what"])}
        for row in rows
    ]
