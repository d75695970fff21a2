"""The benchmark over a population: its folder, its file of runs, its means and its page."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acetune.core.errors import AcetuneError, GoalError
from acetune.core.goals import Objective
from acetune.replay.curve_table import CurveTable, TableConstraint
from acetune.replay.judged_table import judge, parse_limit
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_file import write_table
from benchmarks import grid_plan, population_summary
from benchmarks.grid_cells import GridCell, Score, Scores, budget_s
from benchmarks.population_runs import (
    Measured,
    RunKey,
    Runs,
    SeedRunner,
    append_runs,
    appending,
    measure,
    read_runs,
)
from benchmarks.population_summary import Families, interval_over_tasks, scores_of, with_best
from benchmarks.population_tables import Source, choose, own_tables, read_folder, thin
from benchmarks.regret import regret_scale
from replay.watching import curve, table_of

ROOT = Path(__file__).resolve().parents[2]
NAMES = {"early-1": 0.2, "early-2": 0.1, "late-1": -0.2}  # drift of the gap


def made(drift: float) -> CurveTable:
    return synthetic_table(configs=40, seed=3, max_steps=12, drift=drift, noise=0.01).table


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A population of three small tables in two families."""
    path = tmp_path / "tables"
    path.mkdir()
    for name, drift in NAMES.items():
        write_table(path / f"{name}.parquet", made(drift))
    entry = {"constraint": "gap", "hard": 0.2, "easy": 0.3}
    (path / "limits.json").write_text(json.dumps(dict.fromkeys(NAMES, entry)))
    return path


@pytest.fixture
def population(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.population")


# -- the folder ------------------------------------------------------------------------------------


def test_a_folder_gives_its_tables_with_families_and_limits(folder: Path) -> None:
    sources = read_folder(folder)
    assert [(source.name, source.family) for source in sources] == [
        ("early-1", "early"),
        ("early-2", "early"),
        ("late-1", "late"),
    ]
    assert sources[0].limits == {"hard": "gap<=0.2", "easy": "gap<=0.3"}
    assert sources[0].read().metrics["gap"].tolist() == made(0.2).metrics["gap"].tolist()
    assert len({source.digest for source in sources}) == 3


def test_a_lower_limit_is_told_by_the_table(tmp_path: Path) -> None:
    table = table_of(
        curve([0.7, 0.9], recall=[0.1, 0.8]),
        constraints=(TableConstraint("recall", lower=0.5, cost_s=1.0),),
        objective=Objective("auc", "max"),
    )
    write_table(tmp_path / "a-1.parquet", table)
    entry = {"constraint": "recall", "hard": 0.8}
    (tmp_path / "limits.json").write_text(json.dumps({"a-1": entry}))
    assert read_folder(tmp_path)[0].limits == {"hard": "recall>=0.8"}


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        (None, "a folder of curve tables with a file limits.json"),
        ("[", "is no JSON"),
        ("{}", "an entry for each table"),
        ('{"early-1": {"constraint": "gap", "hard": 0.2}}', "no entry for 'early-2'"),
        ('{"early-1": 3, "early-2": 3, "late-1": 3}', "'early-1' needs a 'constraint'"),
    ],
)
def test_what_is_wrong_with_limits_is_said(folder: Path, limits: str | None, said: str) -> None:
    path = folder / "limits.json"
    path.unlink()
    if limits is not None:
        path.write_text(limits)
    with pytest.raises(AcetuneError, match=said):
        read_folder(folder)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"constraint": "gap"}, "has no limit"),
        ({"constraint": "gap", "hard": "0.2"}, "the limit 'hard' must be a number, got '0.2'"),
        ({"constraint": "gaps", "hard": 0.2}, "no metric 'gaps'"),
        ({"constraint": "gap", "hard": -5}, "no regret without an answer"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(
    folder: Path, entry: dict[str, Any], said: str
) -> None:
    (folder / "limits.json").write_text(json.dumps(dict.fromkeys(NAMES, entry)))
    with pytest.raises(AcetuneError, match=said):
        read_folder(folder)


def test_tables_are_chosen_by_name_or_family_and_thinned_by_family(folder: Path) -> None:
    sources = read_folder(folder)
    assert choose(sources, []) == sources
    assert [s.name for s in choose(sources, ["early"])] == ["early-1", "early-2"]
    assert [s.name for s in choose(sources, ["late-1", "early-2"])] == ["early-2", "late-1"]
    with pytest.raises(AcetuneError, match="no family 'lat'; there are the families early, late"):
        choose(sources, ["lat"])
    assert [s.name for s in thin(sources, 1)] == ["early-1", "late-1"]
    many = [sources[0]._replace(name=f"early-{i}") for i in range(9)]
    assert [s.name for s in thin(many, 3)] == ["early-0", "early-3", "early-6"]


def test_the_tables_of_the_grid_are_two_families_more() -> None:
    sources = own_tables()
    assert [source.name for source in sources] == list(grid_plan.TABLES)
    assert {source.family for source in sources} == {"recorded", "synthetic"}
    tasks = [source.task for source in sources]
    assert len(set(tasks)) == len(tasks) - 1  # one task was recorded twice


# -- runs ------------------------------------------------------------------------------------------


def key(table: str, policy: str, seed: int, ratio: float = 2.0, configs: int = 5) -> RunKey:
    return RunKey(GridCell(table, "hard", "gap<=0.2", ratio, configs), "d", policy, seed)


def runner() -> SeedRunner:
    tables: dict[str, Callable[[], CurveTable]] = {"early-1": lambda: made(0.2)}
    return SeedRunner(tables, 0, 4)


@pytest.mark.parametrize("processes", [1, 2])
def test_each_run_is_that_of_the_simulator(processes: int) -> None:
    wanted = [
        key("early-1", policy, seed, configs=configs)
        for configs in (5, 20)
        for policy in ("ace2", "none+after")
        for seed in range(3)
    ]
    found: Runs = {}
    for came in measure(runner(), wanted, processes):
        found |= came
    assert set(found) == set(wanted)
    table = made(0.2)
    judged = judge(table, [parse_limit("gap<=0.2")], 2.0)
    scale = regret_scale(judged)
    for each, measured in found.items():
        budget = budget_s(table, each.cell.configs, 4)
        run = simulate(judged, each.policy, seed=each.seed, budget_s=budget)
        assert measured.score.regret == pytest.approx(scale.regret(run.loss))
        assert measured.score.trials == run.trials
        assert measured.score.whole == (run.trials == 40)


def test_what_fails_is_said() -> None:
    with pytest.raises(AcetuneError, match="no such table"):
        list(measure(runner(), [key("no such table", "ace", 0)], 2))


def measured(regret: float, code: str = "c") -> Measured:
    return Measured(Score(regret, 0.0, 0.5, 0.0, 0.1, 0.1, 2.0, 10.0, 1.0), code)


def test_runs_come_back_from_disk_and_a_cut_off_line_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "runs.jsonl"
    assert read_runs(path) == {}
    runs = {key("a", "ace", seed): measured(seed / 8) for seed in range(3)}
    with appending(path) as file:
        append_runs(file, runs)
    assert read_runs(path) == runs
    assert len(path.read_text().splitlines()) == 3
    assert json.loads(path.read_text().splitlines()[0])["whole"] == 1.0
    with path.open("a") as lines:
        lines.write('{"table": "a", "ki')
    assert read_runs(path) == runs
    with appending(path) as file:  # the later line counts
        append_runs(file, {key("a", "ace", 0): measured(0.9, "new")})
    assert read_runs(path) == runs | {key("a", "ace", 0): measured(0.9, "new")}


def test_what_is_no_file_of_runs_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"table": "a"}\n')
    with pytest.raises(AcetuneError, match="line 1, is no run of a population"):
        read_runs(path)


# -- what they say ---------------------------------------------------------------------------------


def source(name: str, family: str, task: str = "") -> Source:
    return Source(name, family, task or name, {}, "", lambda: made(0.0))


SOURCES = [source("a1", "a", "a"), source("a2", "a", "a"), source("a3", "a"), source("b1", "b")]
REGRETS = {"a1": 0.1, "a2": 0.3, "a3": 0.6, "b1": 1.0}


def test_means_count_tasks_and_families_once() -> None:
    families = Families(SOURCES)
    scores: Scores = {
        key(table, "x", 0, ratio).cell: {"x": measured(regret).score}
        for table, regret in REGRETS.items()
        for ratio in ((2.0, 24.0) if table == "a3" else (2.0,))
    }
    assert families.names == ["a", "b"]
    assert families.tables("a") == ["a1", "a2", "a3"]
    assert families.tasks == {"a": ["a1", "a2"], "a3": ["a3"], "b1": ["b1"]}
    # the task a has (0.1 + 0.3) / 2, its family (0.2 + 0.6) / 2
    assert families.mean_regret(scores, "x", list(scores)) == pytest.approx((0.4 + 1.0) / 2)


def test_scores_are_means_over_the_first_seeds_where_all_are_there() -> None:
    runs = {key("a1", "x", seed): measured(seed / 8) for seed in range(4)}
    runs[key("a1", "y", 0)] = measured(0.5)
    scores = scores_of(runs, 3)
    assert scores == {key("a1", "x", 0).cell: {"x": scores[key("a1", "x", 0).cell]["x"]}}
    found = scores[key("a1", "x", 0).cell]["x"]
    assert found.regret == pytest.approx(0.125)
    assert found.regret_sd == pytest.approx(statistics.stdev([0, 0.125, 0.25]))
    assert scores_of(runs, 1)[key("a1", "x", 0).cell].keys() == {"x", "y"}


def test_intervals_come_from_tasks_alone() -> None:
    assert doctest.testmod(population_summary).attempted
    assert not doctest.testmod(population_summary).failed
    wide = interval_over_tasks({"a": {"1": 0.0, "2": 1.0}})
    # both draws the same one of two, each with probability a quarter
    assert wide == (0.5, 0.0, 1.0)
    both = interval_over_tasks({"a": {"1": 0.0, "2": 1.0}, "b": {"3": 0.5}})
    assert both == (0.5, 0.25, 0.75)
    with pytest.raises(GoalError, match="at least one task"):
        interval_over_tasks({})


def test_the_best_in_each_cell() -> None:
    cells = [key("a1", "x", 0, ratio).cell for ratio in (2.0, 24.0)]
    numbers = [(0.1, 0.2), (0.5, 0.3)]
    scores: Scores = {
        cell: {"x": measured(x).score, "y": measured(y).score}
        for cell, (x, y) in zip(cells, numbers, strict=True)
    }
    best = with_best(scores, "best", ["x", "y"])
    assert [by["best"].regret for by in best.values()] == [0.1, 0.3]


# -- from end to end -------------------------------------------------------------------------------


def test_from_end_to_end(
    population: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    command = [str(folder), "--runs", str(path), "--out", str(tmp_path), "--processes", "1"]
    command += ["--policy", "none", "--policy", "ace2", "--seeds", "2"]
    command += ["--ratio", "2", "--budget", "5", "--budget", "200", "--searcher", "random"]
    population.main(command)
    text = (tmp_path / "population.md").read_text()
    assert str(tmp_path) not in text
    assert "3 tables (early 2, late 1), 12 cells, 2 seeds" in text
    assert "Regret less that of `ace2`" in text
    for others, left in ("families", "early"), ("tasks", "early-1"):
        assert re.search(rf"\nChosen on the other {others}: `[^.]* for {left}[,;.]", text)
        assert f"\n| chosen on the other {others} " in text
    assert "whole table, by budget and family" in text  # 200 of 40 configurations
    lines = path.read_text().splitlines()
    assert len(lines) == 3 * 2 * 2 * 2 * 2
    flags = {(line["configs"], line["whole"]) for line in map(json.loads, lines)}
    assert flags == {(5, 0.0), (200, 1.0)}

    # again: nothing is measured twice, and what is lost is
    capsys.readouterr()
    path.write_text("\n".join(lines[:-7]) + "\n" + lines[-7][:20])
    population.main(command)
    assert "7 of 48 runs to make" in capsys.readouterr().err
    assert sorted(path.read_text().splitlines()) == sorted(lines)
    assert (tmp_path / "population.md").read_text() == text

    # one searcher and one policy more
    more = [*command[:-2], "--policy", "median", "--max-trials", "8", "--budget", "5"]
    population.main([*more, "--searcher", "random", "--searcher", "tpe"])
    said = capsys.readouterr()
    assert "## Searchers side by side" in said.out


def test_results_of_other_code_are_named_and_can_be_measured_again(
    population: Any,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "runs.jsonl"
    command = [str(folder), "--runs", str(path), "--processes", "1", "--table", "late"]
    command += ["--policy", "ace", "--policy", "ace2:defer=False", "--seeds", "1"]
    command += ["--ratio", "2", "--budget", "5", "--searcher", "random"]
    population.main(command)
    lines = [json.loads(line) | {"code": "old"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    capsys.readouterr()
    population.main([*command, "--again", "ace2"])
    said = capsys.readouterr().err
    assert "other code measured ace;" in said and "2 of 4 runs to make" in said
    capsys.readouterr()
    population.main([*command, "--again", "ace"])
    assert "other code" not in capsys.readouterr().err


def test_the_extract_is_small(
    population: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--runs", str(tmp_path / "runs.jsonl"), "--extract"]
    with pytest.raises(SystemExit):
        population.parse(command)  # no tables
    monkeypatch.setenv("ACETUNE_POPULATION", str(folder))
    options = population.parse(command)
    assert options.folders == [folder]
    assert (options.ratio, options.budget, options.seeds) == ([2.0, 24.0], [50], 3)
    assert len(population.population(options)) == 3
    monkeypatch.setattr(population, "EXTRACT_TABLES", 1)
    assert len(population.population(options)) == 2
    assert options.reference == "ace2"
    for wrong in (["--reference", "no such policy"], ["--seeds", "0"]):
        with pytest.raises(SystemExit):
            population.parse([*command, *wrong])
    again = population.parse([str(folder), *command])
    again.folders *= 2
    with pytest.raises(AcetuneError, match="two tables are called 'early-1'"):
        population.population(again)


def test_the_whole_plan_is_what_was_asked_for(population: Any, folder: Path) -> None:
    options = population.parse([str(folder), "--runs", "x"])
    assert options.ratio == [0.1, 2.0, 24.0, 100.0]
    assert options.budget == [50, 200]
    assert options.seeds == 20
    cells = population.cells_of(population.population(options)[0], options)
    assert len(cells) == len(set(cells)) == 2 * 4 * 2 * 3
