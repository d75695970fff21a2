"""The benchmark of the grid from end to end, on few cells: files, page, resuming."""

from __future__ import annotations

import ast
import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from optuna.samplers._tpe import _truncnorm

from acetune.core.errors import AcetuneError
from acetune.policies import parse_policy
from benchmarks.grid_cells import CellRunner
from benchmarks.grid_code import code_hash
from benchmarks.grid_file import read_scores, write_scores
from benchmarks.source_hash import plain

ROOT = Path(__file__).resolve().parents[2]
TABLES = ["--table", "sst2-minilm", "--table", "synthetic-flat"]


@pytest.fixture
def grid(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark with fewer cells, and pictures that are not drawn."""
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.grid")
    plan, page = sys.modules["benchmarks.grid_plan"], sys.modules["benchmarks.grid_page"]
    monkeypatch.setattr(plan, "RATIOS", (2.0, 24.0))
    monkeypatch.setattr(plan, "BUDGETS", (10,))
    monkeypatch.setattr(plan, "TPE_TRIALS", 6)

    def write(figures: dict[Path, Any]) -> None:
        for path, figure in figures.items():
            path.write_text(figure.to_json())

    monkeypatch.setattr(page, "write_figures", write)
    return module


def test_from_end_to_end(grid: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--seeds", "2", "--processes", "1", "--out", str(tmp_path), *TABLES]
    grid.main(command)
    names = {path.name for path in tmp_path.iterdir()}
    files = {f"grid-{part}.json" for part in ("random", "tpe", "ablation", "held-out")}
    pictures = {"grid-regret.png", "grid-ranks.png", "grid-cells.png"}
    assert names == {"grid.md", *files, *pictures}

    plan = grid.plan
    about, scores = read_scores(tmp_path / "grid-random.json")
    assert len(scores) == 2 * 2 * 2
    assert all(list(by_policy) == [*plan.FIXED, "ace2"] for by_policy in scores.values())
    assert (about["seeds"], about["workers"]) == (2, 4)
    assert str(tmp_path) not in json.dumps(about)
    _, tpe = read_scores(tmp_path / "grid-tpe.json")
    assert len(tpe) == len(scores)
    assert {(cell.table, cell.searcher, cell.max_trials) for cell in tpe} == {
        ("sst2-minilm", "tpe", 6),
        ("synthetic-flat", "tpe", 6),
    }

    text = (tmp_path / "grid.md").read_text()
    for heading in ("What was wanted", "Held out", "With TPE", "What each part", "Where ace2 is"):
        assert f"## {heading}" in text
    assert "Preliminary" in text
    assert str(tmp_path) not in text
    assert text.count("reached: (") == 6 and "not measured" not in text
    for picture in pictures:
        assert f"({picture})" in text

    # again: nothing is measured twice, unless it is asked for
    before = {name: (tmp_path / name).read_bytes() for name in names}
    capsys.readouterr()
    grid.main(command)
    assert "random: all 152 results are there" in capsys.readouterr().err
    assert {name: (tmp_path / name).read_bytes() for name in names} == before
    grid.main([*command, "--part", "random", "--again", "ace2"])
    said = capsys.readouterr().err
    assert "random: 8 of 152 results to measure" in said
    assert read_scores(tmp_path / "grid-random.json")[1] == scores  # the same code, the same seeds

    # the page alone
    (tmp_path / "grid.md").unlink()
    grid.main(["--page", "--out", str(tmp_path)])
    assert (tmp_path / "grid.md").exists()


def test_a_run_that_was_broken_off_goes_on(grid: Any, tmp_path: Path) -> None:
    command = ["--seeds", "1", "--processes", "1", "--out", str(tmp_path), "--part", "ablation"]
    command += ["--table", "sst2-minilm"]
    grid.main(command)
    path = tmp_path / "grid-ablation.json"
    about, scores = read_scores(path)
    first, *others = scores
    some = {cell: scores[cell] for cell in others} | {first: dict(list(scores[first].items())[:1])}
    write_scores(path, about, some)
    grid.main(command)
    assert read_scores(path) == (about, scores)
    assert list(read_scores(path)[1]) == list(scores)
    assert not (tmp_path / "grid.md").exists()  # without the part random


def test_results_of_other_code_are_kept_and_named(
    grid: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["--seeds", "1", "--processes", "1", "--out", str(tmp_path), "--part", "ablation"]
    command += ["--table", "sst2-minilm"]
    grid.main(command)
    monkeypatch.setattr(grid, "code_hash", lambda policy: "new")
    capsys.readouterr()
    grid.main(command)
    assert (
        "other code measured ace2:defer=False, ace2:head_start=0, ace2:invalid_truncation"
        in capsys.readouterr().err
    )
    grid.main([*command, "--again", "ace2:spacing=0"])
    about, _ = read_scores(tmp_path / "grid-ablation.json")
    assert [policy for policy, code in about["code"].items() if code == "new"] == ["ace2:spacing=0"]
    capsys.readouterr()
    grid.main([*command, "--again", "all"])
    assert "other code" not in capsys.readouterr().err


def test_results_of_other_seeds_are_not_mixed_or_lost(grid: Any, tmp_path: Path) -> None:
    write_scores(tmp_path / "grid-random.json", {"seeds": 50}, {})
    with pytest.raises(AcetuneError, match="holds results of 50 seeds, and 2 are asked for"):
        grid.main(["--seeds", "2", "--part", "random", "--out", str(tmp_path)])


def test_tpe_needs_the_best_fixed_policy(grid: Any, tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match="run --part random first"):
        grid.main(["--seeds", "2", "--part", "tpe", "--out", str(tmp_path)])


def test_what_decides_the_numbers_of_a_policy_is_told_apart() -> None:
    """Ours is made of one file more; comments, docstrings and imports do not count."""
    assert code_hash("ace2") == code_hash("ace2:spacing=0") != code_hash("ace")
    assert code_hash("ace") == code_hash("none")
    texts = ("def f(a):\n    return a", "import b\ndef f( a ): return a # b")
    one, two = (ast.parse(text) for text in texts)
    assert plain(one) == plain(two) != plain(ast.parse("def f(a): return -a"))


def test_the_whole_grid_is_what_was_asked_for() -> None:
    sys.path.insert(0, str(ROOT))
    try:
        plan = importlib.import_module("benchmarks.grid_plan")
    finally:
        sys.path.remove(str(ROOT))
    cells = plan.cells("random", plan.TABLES)
    assert len(cells) == len(set(cells)) == 112
    assert len(plan.cells("tpe", plan.TABLES)) == 112
    assert len(plan.FIXED) == 18 and len(plan.SETTINGS) == 11 and len(plan.ABLATIONS) == 7
    for policy in (*plan.FIXED, *plan.SETTINGS, *plan.ABLATIONS):
        parse_policy(policy)
    measured = {policy for policies in plan.PARTS.values() for policy in policies}
    assert measured == {*plan.FIXED, *plan.SETTINGS, *plan.ABLATIONS}
    keys = [(cell.table, cell.limit, cell.cost_ratio) for cell in cells]
    assert keys == [key for key in dict.fromkeys(keys) for _ in plan.BUDGETS]  # side by side
    for table in plan.SYNTHETIC:
        shares = [
            (plan.made_table(table, kind).metrics["gap"] > float(limit.partition("<=")[2])).mean()
            for kind, limit in plan.limits(table).items()
        ]
        assert shares == pytest.approx([0.93, 0.4], abs=0.002)


def test_tpe_suggests_the_same_with_the_faster_function(grid: Any) -> None:
    """In a space of whole numbers, where Optuna's own is slow."""
    plan = grid.plan
    cell = replace(plan.cells("tpe", ["law-mlp"])[-2], configs=50, max_trials=40)
    job = ((cell,), "ace2")
    sources = plan.sources(["law-mlp"])
    slow = CellRunner(sources, 2, 4)(job)
    own = _truncnorm._log_ndtr
    assert grid.TpeRunner(sources, 2, 4)(job) == slow
    assert _truncnorm._log_ndtr is own  # put back
    assert slow[0].trials == 40
