"""``acetune replay``: policies side by side, in a terminal, as JSON and as pictures."""

from __future__ import annotations

import inspect
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune import tune
from acetune.cli.replay import default_budget, seed_by_seed
from acetune.core.goals import Objective
from acetune.policies import make_policy, parse_policy
from acetune.replay.curve_table import CurveTable, TableConstraint, make_table
from acetune.replay.runs import Cell, Incumbent, Run
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_file import read_table, write_table
from cli.inside import Command

RUN_KEYS = {
    "policy",
    "constraint",
    "cost_ratio",
    "budget_s",
    "workers",
    "seed",
    "best",
    "trials",
    "constraint_evaluations",
    "constraint_cost_share",
    "time_to_best_s",
}
SUMMARY_KEYS = {"policy", "constraint", "cost_ratio", "mean", "sd", "failures", "trials"}
LONG = "asha-stratum-adaptive"


def made(**options: Any) -> CurveTable:
    return synthetic_table(**{"configs": 40, "seed": 1, "max_steps": 20, **options}).table


@pytest.fixture(scope="session")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tables."""
    folder = tmp_path_factory.mktemp("tables")
    write_table(folder / "plain.parquet", made())
    write_table(folder / "confirmed.parquet", made(confirmation=True, noise=0.01))
    # some seeds find something, some do not
    write_table(folder / "hard.parquet", made(confirmation=True, noise=0.01, difficulty=0.85))
    write_table(folder / "impossible.parquet", made(difficulty=1.0))
    return folder


LITTLE = ("--seeds", 3, "--processes", 1, "--budget-s", 2)
QUICK = (*LITTLE, "--searcher", "random")


# -- the table in a terminal ---------------------------------------------------------------------


def rows(printed: str) -> dict[str, list[str]]:
    """The fields of each policy's line, from all tables."""
    found: dict[str, list[str]] = {}
    for line in printed.splitlines():
        name, *fields = line.split() or [""]
        if (
            re.fullmatch(r"[a-z][a-z+-]*(:\S+)?", name)
            and fields
            and fields[-1][-1:] in "0123456789%-"
        ):
            found.setdefault(name, []).extend(fields)
    return found


def test_policies_side_by_side(acetune: Command, tables: Path) -> None:
    policies = ("none", "ace", LONG)
    options = [part for policy in policies for part in ("--policy", policy)]
    printed, told = acetune("replay", tables / "plain.parquet", *options, *QUICK)
    assert not told
    first, *_ = printed.splitlines()
    assert re.fullmatch(
        r"synthetic, gap <= 0\.\d+, costs as recorded, 2 s, random, 4 workers, 3 seeds", first
    )
    assert list(rows(printed)) == list(policies)
    for fields in rows(printed).values():
        # mean, ±, sd, trials, checks, check time, first at, best at
        assert len(fields) == 8 and fields[1] == "±" and fields[5].endswith("%")
    assert "failed" not in printed and "confirmed" not in printed
    assert "best: feasible score, higher is better; the table's best is 0." in printed


@pytest.mark.parametrize("table", ["plain", "confirmed", "hard"])
@pytest.mark.parametrize("columns", [80, 120])
def test_the_table_can_be_read(
    acetune: Command, monkeypatch: pytest.MonkeyPatch, tables: Path, table: str, columns: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    options = [part for name in ("none+after", LONG) for part in ("--policy", name)]
    printed, _ = acetune("replay", tables / f"{table}.parquet", *options, *QUICK)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= columns
    assert "…" not in printed and "..." not in printed
    headers = [line for line in lines if line.startswith("policy ")]
    parts = 2 if table != "plain" and columns == 80 else 1  # too wide for one
    assert len(headers) == parts
    words = " ".join(headers).split()
    assert ("confirmed" in words, "failed" in words) == (table != "plain", table == "hard")
    assert "check time" in printed and "first, best at s" in printed
    assert ("limit broken" in printed) is (table != "plain")
    # where one seed alone has found something there is no "± sd"
    counts = {"plain": (8, 8), "confirmed": (10, 10), "hard": (11, 9)}
    for name, count in zip(("none+after", LONG), counts[table], strict=True):
        assert sum(line.startswith(f"{name} ") for line in lines) == parts
        assert len(rows(printed)[name]) == count


def test_long_names_are_folded_and_numbers_are_not(acetune: Command, tables: Path) -> None:
    name = "ace:truncation=0.5,interval=1,gate=False"
    printed, _ = acetune("replay", tables / "hard.parquet", "--policy", name, *QUICK)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    folded = [i for i, line in enumerate(lines) if line.startswith("ace:truncation=0.5,int")]
    assert "".join(lines[i].split()[0] for i in (folded[0], folded[0] + 1)) == name
    assert "%" in lines[folded[0]]


def test_numbers_have_the_digits_that_matter(acetune: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    curves: list[Any] = [
        ({"x": i}, {"loss": [5e6 + 4e5 * rng.random()], "g": [0.0]}, [1500.0], None)
        for i in range(30)
    ]
    limit = TableConstraint("g", upper=1.0, cost_s=0.0)
    table = make_table("large", Objective("loss", "min"), [limit], curves)
    write_table(tmp_path / "large.parquet", table)
    options = ("--policy", "none", "--seeds", 5, "--processes", 1, "--budget-s")
    for budget in (1e9, 4000):  # all seeds find the same, or each its own
        printed, _ = acetune("replay", tmp_path / "large.parquet", *options, budget)
        (fields,) = rows(printed).values()
        assert re.fullmatch(r"5,\d{3},\d{3}", fields[0]) and re.fullmatch(r"\d{1,6}", fields[2])
        assert re.fullmatch(r"\d{1,3}(,\d{3})+", fields[-1])
        _, *lines = printed.splitlines()
        assert "e+" not in " ".join(lines) and "lower is better" in printed


def test_one_of_each_is_said_in_the_singular(acetune: Command, tables: Path) -> None:
    options = ("--workers", 1, "--seeds", 1, "--processes", 1)
    printed, _ = acetune("replay", tables / "plain.parquet", "--policy", "ace", *options)
    assert ", 1 worker, 1 seed\n" in printed
    assert "±" not in rows(printed)["ace"]


def test_notes_about_tables_that_are_too_small(acetune: Command, tables: Path) -> None:
    table = tables / "plain.parquet"
    options = ("--policy", "ace", "--seeds", 1, "--processes", 1, "--budget-s")
    printed, _ = acetune("replay", table, *options, 1000)
    assert "note: ace tried all 40 configurations of the table" in printed
    printed, _ = acetune("replay", table, *options, 0.5)
    assert "note" not in printed


def test_notes_about_checks_that_were_not_recorded(acetune: Command, tmp_path: Path) -> None:
    limit = TableConstraint("g", upper=1.0, cost_s=0.1, sparse=True)
    metrics = {"score": [0.1, 0.2], "g": [math.nan, 0.5]}
    curves: list[Any] = [({"x": i}, metrics, [1.0, 1.0], None) for i in range(5)]
    path = tmp_path / "sparse.parquet"
    write_table(path, make_table("sparse", made().objective, [limit], curves))
    options = ("--policy", "ace-noskip:interval=1,truncation=0", "--seeds", 2, "--processes", 1)
    options = (*options, "--budget-s", 100)
    printed, _ = acetune("replay", path, *options, "--json", tmp_path / "out.json")
    text = " ".join(printed.split())
    assert "note: 10 checks asked for values that the table does not have" in text
    runs = json.loads((tmp_path / "out.json").read_text())["runs"]
    assert [run["unmeasured_checks"] for run in runs] == [5, 5]
    assert [run["constraint_evaluations"] for run in runs] == [10, 10]


# -- JSON ----------------------------------------------------------------------------------------


def replay_json(acetune: Command, folder: Path, *arguments: object) -> dict[str, Any]:
    path = folder / "deep" / "out.json"
    acetune("replay", *arguments, "--json", path)
    found: dict[str, Any] = json.loads(path.read_text(), parse_constant=pytest.fail)
    return found


def test_the_json_has_what_was_agreed(acetune: Command, tables: Path, tmp_path: Path) -> None:
    path = tables / "plain.parquet"
    found = replay_json(acetune, tmp_path, path, "--policy", "none", "--policy", "ace", *QUICK)
    assert list(found) == ["table", "tune_default", "runs", "summary"]
    assert found["table"] == str(path)
    assert all(run.keys() >= RUN_KEYS for run in found["runs"])
    assert all(row.keys() >= SUMMARY_KEYS for row in found["summary"])
    assert [(run["policy"], run["seed"]) for run in found["runs"]] == [
        (policy, seed) for policy in ("none", "ace") for seed in range(3)
    ]
    for row in found["summary"]:
        runs = [run for run in found["runs"] if run["policy"] == row["policy"]]
        best = [run["best"] for run in runs]
        assert row["mean"] == pytest.approx(np.mean(best))
        assert row["sd"] == pytest.approx(np.std(best, ddof=1))
        assert row["trials"] == pytest.approx(np.mean([run["trials"] for run in runs]))
        assert row["failures"] == 0
        for run in runs:
            assert (run["budget_s"], run["workers"], run["cost_ratio"]) == (2.0, 4, None)
            assert re.fullmatch(r"gap<=0\.\d+", run["constraint"])
            assert run["time_to_best_s"] > 0 and 0 < run["constraint_cost_share"] < 1
            assert run["confirmed"] is None and run["confirmed_broken"] is None


def test_nothing_feasible_is_null(acetune: Command, tables: Path, tmp_path: Path) -> None:
    table = tables / "impossible.parquet"
    found = replay_json(acetune, tmp_path, table, "--policy", "ace", *QUICK)
    for run in found["runs"]:
        assert run["best"] is None and run["time_to_best_s"] is None
        assert run["constraint_evaluations"] > 0
    (row,) = found["summary"]
    assert (row["mean"], row["sd"], row["failures"]) == (None, None, 3)
    printed, _ = acetune("replay", table, "--policy", "ace", *QUICK)
    assert "none is in the table" in printed
    assert rows(printed)["ace"][:2] == ["-", "3"]


def test_several_cells(acetune: Command, tables: Path, tmp_path: Path) -> None:
    options: list[object] = []
    for limit in ("gap<=0.3", "gap <= 0.25", "gap<=0.30"):  # one of them twice
        options += ["--constraint", limit]
    for ratio in (0.5, 5):
        options += ["--cost-ratio", ratio]
    options += ["--policy", "none", "--policy", "ace", "--policy", "none", *QUICK]
    path = tmp_path / "out.json"
    printed, _ = acetune("replay", tables / "plain.parquet", *options, "--json", path)
    found = json.loads(path.read_text())
    cells = [
        (limit, ratio, policy)
        for limit in ("gap<=0.3", "gap<=0.25")
        for ratio in (0.5, 5.0)
        for policy in ("none", "ace")
    ]
    keys = ("constraint", "cost_ratio", "policy")
    assert [tuple(row[key] for key in keys) for row in found["summary"]] == cells
    assert [tuple(run[key] for key in keys) for run in found["runs"][::3]] == cells
    assert len(found["runs"]) == 24
    titles = [line for line in printed.splitlines() if line.startswith("synthetic, ")]
    assert titles == [
        f"synthetic, gap <= {limit}, cost ratio {ratio}, 2 s, random, 4 workers, 3 seeds"
        for limit in (0.3, 0.25)
        for ratio in (0.5, 5)
    ]
    # each table shows the numbers of its own cell
    shown = [line.split() for line in printed.splitlines() if line.startswith(("none ", "ace "))]
    for fields, row in zip(shown, found["summary"], strict=True):
        assert float(fields[1]) == pytest.approx(row["mean"], abs=0.01)
        assert float(fields[3]) == pytest.approx(row["sd"], abs=0.01)


def test_limits_that_hold_together(acetune: Command, tmp_path: Path) -> None:
    limits = [TableConstraint("false rate", upper=1.0, cost_s=0.1)]
    limits.append(TableConstraint("recall", lower=0.2, cost_s=0.3))
    curves: list[Any] = [
        ({"x": i}, {"score": [i / 10], "false rate": [i / 5], "recall": [i / 4]}, [1.0], None)
        for i in range(8)
    ]
    path = tmp_path / "two.parquet"
    write_table(path, make_table("two", made().objective, limits, curves))
    options = ("--policy", "none", "--seeds", 1, "--processes", 1, "--budget-s", 100)
    (own,) = replay_json(acetune, tmp_path, path, *options)["runs"]
    assert (own["constraint"], own["best"]) == ("false rate<=1,recall>=0.2", 0.5)
    both = "false rate<=0.7, recall>=0.5"
    (other,) = replay_json(acetune, tmp_path, path, *options, "--constraint", both)["runs"]
    assert (other["constraint"], other["best"]) == ("false rate<=0.7,recall>=0.5", 0.3)
    (one,) = replay_json(acetune, tmp_path, path, *options, "--constraint", "recall>=0.9")["runs"]
    assert (one["constraint"], one["best"]) == ("recall>=0.9", 0.7)


@pytest.mark.slow
@pytest.mark.parametrize("searcher", ["random", "tpe"])
def test_processes_do_not_change_the_answer(
    acetune: Command, tables: Path, tmp_path: Path, searcher: str
) -> None:
    texts = []
    for processes in (1, 2, 2):
        path = tmp_path / "out.json"
        options = ("--searcher", searcher, "--processes", processes, "--seeds", 4, "--budget-s", 2)
        policies = ("--policy", "ace", "--policy", "asha")
        acetune("replay", tables / "confirmed.parquet", *policies, *options, "--json", path)
        texts.append(path.read_text())
    assert texts[0] == texts[1] == texts[2]
    runs = json.loads(texts[0])["runs"]
    assert {run["searcher"] for run in runs} == {searcher}
    assert len({run["best"] for run in runs if run["policy"] == "ace"}) > 1  # seeds differ
    assert all(isinstance(run["confirmed"], float) for run in runs)


def test_the_default_budget_trains_fifty_curves_or_a_quarter(
    acetune: Command, tables: Path, tmp_path: Path
) -> None:
    table = made()
    expected = 10 * table.cost_s.sum() / 40 / 3  # a quarter of 40 configurations
    assert default_budget(table, 3) == pytest.approx(expected, rel=0.05)
    options = ("--workers", 3, "--seeds", 1, "--processes", 1, "--policy", "none")
    (run,) = replay_json(acetune, tmp_path, tables / "plain.parquet", *options)["runs"]
    assert run["budget_s"] == default_budget(table, 3)
    free = make_table("free", table.objective, [], [({}, {"score": [1.0]}, [0.0], None)])
    assert default_budget(free, 1) == 1.0


def test_without_a_choice_it_is_what_tune_does(
    acetune: Command, tables: Path, tmp_path: Path
) -> None:
    found = replay_json(acetune, tmp_path, tables / "plain.parquet", *LITTLE)
    assert found["tune_default"] == {"policy": "adaptive", "searcher": "forest"}
    assert [(row["policy"], row["searcher"]) for row in found["runs"]] == 3 * [
        ("adaptive", "forest")
    ]
    assert inspect.signature(tune).parameters["searcher"].default == "forest"
    assert make_policy(None) == parse_policy("adaptive")
    spaceless = tmp_path / "spaceless.parquet"
    write_table(spaceless, replace(read_table(tables / "plain.parquet"), space=None))
    found = replay_json(acetune, tmp_path, spaceless, *LITTLE)
    assert {row["searcher"] for row in found["runs"]} == {"random"}


# -- pictures ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cells", [1, 2])
def test_pictures_need_nothing_else(
    acetune: Command, tables: Path, tmp_path: Path, cells: int
) -> None:
    path = tmp_path / "deep" / "picture.html"
    limits = [
        part for limit in ("gap<=0.3", "gap<=0.25")[:cells] for part in ("--constraint", limit)
    ]
    policies = ("--policy", "none", "--policy", "ace")
    options = (*limits, *policies, *QUICK, "--plot", path)
    printed, _ = acetune("replay", tables / "plain.parquet", *options)
    means, ranks = path.with_name("picture-means.html"), path.with_name("picture-ranks.html")
    assert f"drawn: {path}, {means}, {ranks}\n" in printed
    for file in (path, means, ranks):
        text = file.read_text(encoding="utf-8")
        assert "Plotly.newPlot" in text and len(text) > 1_000_000
        assert not re.search(r"<(script|link|img)[^>]*\b(src|href)=", text)


def test_one_policy_is_not_ranked(acetune: Command, tables: Path, tmp_path: Path) -> None:
    path = tmp_path / "picture.html"
    acetune("replay", tables / "hard.parquet", "--policy", "ace", *QUICK, "--plot", path)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["picture-means.html", "picture.html"]


def test_seed_by_seed_counts_who_did_better() -> None:
    def run(policy: str, seed: int, best: float | None) -> Run:
        cell = Cell("t", "g <= 1", 1.0, 1.0, 4, "random")
        found = () if best is None else (Incumbent(0.5, best, 0, 1),)
        return Run(policy, cell, seed, "max", found, 5, 50, 10, 0, 1.0, 0.1, 1.0)

    bests = {"none": [0.1, None, 0.3, 0.4], "ace": [0.2, 0.2, 0.3, 0.1]}
    runs = [run(p, seed, best) for p, found in bests.items() for seed, best in enumerate(found)]
    assert seed_by_seed(["none", "ace"], runs) == ["seed by seed: ace 2, none 1, 1 tie", ""]
    assert seed_by_seed(["ace"], runs) == []


# -- mistakes ------------------------------------------------------------------------------------


def test_mistakes_get_a_line_and_no_traceback(
    acetune: Command, tables: Path, tmp_path: Path
) -> None:
    path = tables / "plain.parquet"
    (tmp_path / "text.parquet").write_text("anything else")
    (tmp_path / "file").write_text("in the way")
    bare = make_table(
        "bare", made().objective, [], [({}, {"score": [1.0], "g": [1.0]}, [1.0], None)]
    )
    write_table(tmp_path / "bare.parquet", bare)
    table: list[tuple[list[object], list[str]]] = [
        ([tmp_path / "nothing.parquet"], ["there is no curve table", "nothing.parquet"]),
        ([tmp_path / "text.parquet"], ["text.parquet is no Parquet file"]),
        ([path, "--policy", "acce"], ["unknown policy 'acce'", "ace-beta1"]),
        ([path, "--policy", "ace:truncation=2"], ["truncation must be", "got 2"]),
        ([path, "--policy", "ace:trunc=0.5"], ["'ace'", "'trunc'", "truncation"]),
        ([path, "--searcher", "rand"], ["unknown searcher 'rand'", "random"]),
        ([path, "--constraint", "eod<=0.2"], ["no metric 'eod'", "gap"]),
        ([path, "--constraint", "gap<0.2"], ["METRIC<=NUMBER", "'gap<0.2'"]),
        ([path, "--constraint", "gap<=low"], ["'low' is no number"]),
        ([path, "--constraint", "gap<=nan"], ["limit must be finite, got nan"]),
        ([path, "--constraint", "gap<=0.2,gap<=0.3"], ["'gap' is used twice"]),
        ([path, "--constraint", "score>=0.8"], ["'score' is the objective", "gap"]),
        ([path, "--cost-ratio", -1], ["cost_ratio must be", "got -1"]),
        ([path, "--seeds", 0], ["--seeds must be at least 1, got 0"]),
        ([path, "--workers", 0], ["--workers must be at least 1, got 0"]),
        ([path, "--processes", 0], ["--processes must be at least 1, got 0"]),
        ([path, "--budget-s", 0], ["--budget-s must be a finite number above 0, got 0.0"]),
        ([path, "--budget-s", "inf"], ["--budget-s must be a finite number", "inf"]),
        ([path, "--startup-s", -1], ["--startup-s must be", "got -1"]),
        ([path, "--plot", "picture.gif"], ["picture.gif", ".html, .png"]),
        ([tmp_path / "bare.parquet", "--searcher", "tpe"], ["what space was searched"]),
        ([tmp_path / "bare.parquet", "--constraint", "g<=1"], ["checking 'g' costs", "cost ratio"]),
    ]
    for arguments, words in table:
        complaint = acetune.refuses("replay", *arguments)
        for word in words:
            assert word in complaint, complaint
        assert len(complaint.splitlines()) == 1

    _, complaint = acetune("replay", path, *QUICK, "--json", tmp_path / "file" / "o.json", ok=False)
    assert complaint.startswith("acetune: cannot write ") and "o.json" in complaint
    _, complaint = acetune("replay", path, *QUICK, "--plot", tmp_path / "file" / "p.html", ok=False)
    assert complaint.startswith("acetune: cannot write ") and "p.html" in complaint
