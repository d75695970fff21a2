"""Single runs over a population: making them, and keeping them as lines of JSON."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

from acetune.core.errors import AcetuneError
from acetune.policies import parse_policy
from acetune.replay.parallel import Lost, run_jobs
from benchmarks.grid_cells import CellRunner, GridCell, Score
from benchmarks.grid_code import code_hash

_DIGITS = 5
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_CELL = tuple(GridCell.__dataclass_fields__)


class RunKey(NamedTuple):
    """What was run."""

    cell: GridCell
    digest: str  # of the table
    policy: str
    seed: int


class Measured(NamedTuple):
    """What came out of one run."""

    score: Score  # of this run alone
    code: str  # which code made it


Runs: TypeAlias = dict[RunKey, Measured]
SeedJob: TypeAlias = tuple[tuple[GridCell, ...], str, tuple[int, ...]]


class SeedRunner(CellRunner):
    """Scores each run of a policy by itself."""

    def each(self, job: SeedJob) -> list[list[Score]]:
        """By cell, a score a seed; the cells differ in their budgets only."""
        cells, policy, seeds = job
        if cells[0].searcher == "tpe":
            from benchmarks.grid_tpe import faster_tpe  # Optuna is slow to import

            speed: contextlib.AbstractContextManager[None] = faster_tpe()
        else:
            speed = contextlib.nullcontext()
        with speed:
            by_cell = self.replay(cells, policy, seeds)
        return [
            [self.score(cell, [run]) for run in runs]
            for cell, runs in zip(cells, by_cell, strict=True)
        ]


def measure(runner: SeedRunner, wanted: Iterable[RunKey], processes: int = 1) -> Iterator[Runs]:
    """Make the runs; what comes is what one call of the simulator gave, for each of its seeds."""
    keys = {(key.cell, key.policy, key.seed): key for key in wanted}
    jobs = _jobs(keys.values())
    codes = {policy: code_hash(policy) for policy in dict.fromkeys(job[1] for job in jobs)}
    for index, scores in _results(runner.each, jobs, processes):
        cells, policy, seeds = jobs[index]
        if isinstance(scores, Lost):
            raise AcetuneError(f"{policy!r} in {cells[0].describe()} failed: {scores.error}")
        yield {
            keys[cell, policy, seed]: Measured(score, codes[policy])
            for cell, by_seed in zip(cells, scores, strict=True)
            for seed, score in zip(seeds, by_seed, strict=True)
        }


def _results(
    function: Callable[[SeedJob], object], jobs: Sequence[SeedJob], processes: int
) -> Iterator[tuple[int, Any]]:
    if processes == 1:
        yield from enumerate(map(function, jobs))
        return
    # whatever happens, no worker is left behind
    with contextlib.closing(run_jobs(function, jobs, min(processes, len(jobs)))) as results:
        yield from results


def _jobs(keys: Iterable[RunKey]) -> list[SeedJob]:
    """Budgets of one cell are run at once, as the longest run passes through all of them."""
    seeds: dict[tuple[GridCell, str], list[int]] = {}
    for key in keys:
        seeds.setdefault((key.cell, key.policy), []).append(key.seed)
    together: dict[tuple[GridCell, str, tuple[int, ...]], list[GridCell]] = {}
    for (cell, policy), missing in seeds.items():
        # what checks after the run needs a run for each budget
        apart = cell.configs if parse_policy(policy).checks_after_run else 0
        same = (replace(cell, configs=apart), policy, tuple(missing))
        together.setdefault(same, []).append(cell)
    return [
        (tuple(sorted(cells, key=lambda cell: cell.configs)), policy, missing)
        for (_, policy, missing), cells in together.items()
    ]


# -- on disk ---------------------------------------------------------------------------------------


def append_runs(file: IO[str], runs: Mapping[RunKey, Measured]) -> None:
    """One line a run."""
    for key, (score, code) in runs.items():
        numbers = {name: round(value, _DIGITS) for name, value in score._asdict().items()}
        del numbers["regret_sd"]  # of one run
        line = {
            **asdict(key.cell),
            "digest": key.digest,
            "policy": key.policy,
            "seed": key.seed,
            **numbers,
            "code": code,
        }
        file.write(json.dumps(line) + "\n")
    file.flush()


@contextlib.contextmanager
def appending(path: Path) -> Iterator[IO[str]]:
    """The file to append to; a last line that was cut off is taken away."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            text = path.read_bytes()
            whole = text.rfind(b"\n") + 1
            if whole < len(text):
                with path.open("r+b") as file:
                    file.truncate(whole)
        with path.open("a", encoding="utf-8") as lines:
            yield lines
    except OSError as error:
        raise AcetuneError(f"cannot write {path}: {error.strerror}") from None


def read_runs(path: Path) -> Runs:
    """What the file holds; of two lines on the same run the later one counts."""
    return read_lines(path, "run of a population", _parse)


def read_lines(
    path: Path, what: str, parse: Callable[[dict[str, Any]], tuple[_Key, _Value]]
) -> dict[_Key, _Value]:
    """What the lines of a file say, by their keys; nothing where there is no such file."""
    if not path.exists():
        return {}
    try:
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # without one that was cut off
    except (OSError, UnicodeDecodeError) as error:
        raise AcetuneError(f"cannot read {path}: {error}") from None
    found: dict[_Key, _Value] = {}
    for number, line in enumerate(lines, start=1):
        try:
            key, value = parse(json.loads(line))
        except (ValueError, TypeError, KeyError) as error:
            raise AcetuneError(
                f"{path}, line {number}, is no {what} ({type(error).__name__}: {error}); remove "
                "it, or give another file"
            ) from None
        found[key] = value
    return found


def _parse(line: dict[str, Any]) -> tuple[RunKey, Measured]:
    cell = GridCell(**{name: line[name] for name in _CELL})
    key = RunKey(cell, line["digest"], line["policy"], int(line["seed"]))
    numbers = {name: float(line[name]) for name in Score._fields if name != "regret_sd"}
    return key, Measured(Score(regret_sd=0.0, **numbers), line["code"])
