"""The tables of a population: a folder of curve tables with their limits, or the grid's own."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acetune.core.errors import AcetuneError
from acetune.core.numbers import is_number
from acetune.replay.curve_table import CurveTable
from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.table_file import read_table
from benchmarks import grid_plan as plan
from benchmarks.regret import regret_scale

LIMITS = "limits.json"


class Source(NamedTuple):
    """A table, and what is measured on it."""

    name: str
    family: str
    task: str  # tables of one task are no independent evidence
    limits: dict[str, str]  # by kind, as on the command line: {"hard": "gap<=0.01"}
    digest: str  # of the file; empty for a table that is made by code
    read: Callable[[], CurveTable]


def read_folder(folder: Path) -> list[Source]:
    """Every table that ``limits.json`` in this folder names.

    ``limits.json`` has for each table, by the name of its file without ``.parquet``, the
    ``constraint`` (a column) and a number for each kind of limit, such as ``hard`` and ``easy``. A
    limit is a lower one where the table's own constraint on that column is. The family of a table
    is what its name begins with, up to the first hyphen. All tables are read once, so that what is
    wrong is said before anything is measured.
    """
    return [_source(folder, name, entry) for name, entry in _read_limits(folder).items()]


def _read_limits(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / LIMITS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise AcetuneError(
            f"cannot read {path}: {error.strerror}; a population is a folder of curve tables with "
            f"a file {LIMITS}"
        ) from None
    except ValueError as error:
        raise AcetuneError(f"{path} is no JSON: {error}") from None
    if not isinstance(entries, dict) or not entries:
        raise AcetuneError(f"{path} must hold an object with an entry for each table")
    without = sorted({file.stem for file in folder.glob("*.parquet")} - entries.keys())
    if without:
        raise AcetuneError(f"{path} has no entry for {without[0]!r}; add one, or move the table")
    return entries


def _source(folder: Path, name: str, entry: Any) -> Source:
    where = f"{folder / LIMITS}: {name!r}"
    if not isinstance(entry, dict) or not isinstance(entry.get("constraint"), str):
        raise AcetuneError(f"{where} needs a 'constraint', the name of a column; it has {entry!r}")
    metric = entry["constraint"]
    numbers = {kind: number for kind, number in entry.items() if kind != "constraint"}
    for kind, number in numbers.items():
        if not is_number(number):
            raise AcetuneError(f"{where}: the limit {kind!r} must be a number, got {number!r}")
    if not numbers:
        raise AcetuneError(f"{where} has no limit; add one, such as 'hard': 0.1")
    path = folder / f"{name}.parquet"
    table = read_table(path)
    lower = any(own.metric == metric and own.lower is not None for own in table.constraints)
    limits = {kind: f"{metric}{'>=' if lower else '<='}{n!r}" for kind, n in numbers.items()}
    for limit in limits.values():
        regret_scale(judge(table, [parse_limit(limit)]))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    family = name.partition("-")[0]
    return Source(name, family, name, limits, digest, functools.partial(read_table, path))


def own_tables() -> list[Source]:
    """The tables of the grid: the recorded ones are one family, the synthetic ones another."""
    found = []
    for name, read in plan.sources(plan.TABLES).items():
        recorded = name in plan.RECORDED
        digest = ""
        if recorded:
            path = plan.ROOT / "tables" / f"{name}.parquet"
            digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
        task = plan.TWINS[0] if name in plan.TWINS else name
        family = "recorded" if recorded else "synthetic"
        found.append(Source(name, family, task, plan.limits(name), digest, read))
    return found


def choose(sources: Sequence[Source], names: Iterable[str]) -> list[Source]:
    """Those that are named, by table or by family; all where no name is given."""
    names = list(names)
    for name in names:
        if not any(name in (source.name, source.family) for source in sources):
            known = ", ".join(dict.fromkeys(source.family for source in sources))
            raise AcetuneError(f"no table and no family {name!r}; there are the families {known}")
    return [s for s in sources if not names or s.name in names or s.family in names]


def thin(sources: Sequence[Source], most: int) -> list[Source]:
    """At most so many tables of each family, spread over it."""
    found = []
    for family in dict.fromkeys(source.family for source in sources):
        of_family = [source for source in sources if source.family == family]
        count = min(most, len(of_family))
        found += [of_family[i * len(of_family) // count] for i in range(count)]
    return found
