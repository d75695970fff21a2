"""The default beside its peers on a simulated clock: its file of races, and its page."""

from __future__ import annotations

import importlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from acetune.core.errors import AcetuneError
from acetune.replay.synthetic import synthetic_table
from acetune.replay.table_file import write_table

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.peers")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small table with one limit."""
    path = tmp_path / "tables"
    path.mkdir()
    table = synthetic_table(configs=30, seed=3, max_steps=8, drift=0.1, noise=0.01).table
    write_table(path / "late-1.parquet", table)
    (path / "limits.json").write_text('{"late-1": {"constraint": "gap", "hard": 0.2}}')
    return path


def test_races_that_were_broken_off_go_on_from_the_file(
    peers: Any, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "races.jsonl"
    command = [str(folder), "--runs", str(path), "--out", str(tmp_path), "--processes", "1"]
    command += ["--seeds", "2", "--ratio", "2", "--configs", "4", "--workers", "1"]
    peers.main(command)
    assert "2 of 2 races to run" in capsys.readouterr().err
    text = (tmp_path / "peers.md").read_text()
    assert str(tmp_path) not in text
    lines = path.read_text().splitlines()
    assert len(lines) == 2

    # the second line was cut off: that race alone is run again, and comes out the same
    path.write_text(lines[0] + "\n" + lines[1][:40])
    peers.main(command)
    assert "1 of 2 races to run" in capsys.readouterr().err
    assert path.read_text().splitlines() == lines
    assert (tmp_path / "peers.md").read_text() == text

    # one that lacks a peer is run again; that other code has run it is said
    old = [json.loads(line) | {"code": "old"} for line in lines]
    old[1]["raced"].pop()
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    peers.main(command)
    said = capsys.readouterr().err
    assert "1 of 2 races to run" in said and "other code ran some of them" in said
    assert path.read_text().splitlines()[2:] == [lines[1]]


def test_a_race_comes_back_from_the_file(peers: Any, tmp_path: Path) -> None:
    path = tmp_path / "races.jsonl"
    key = peers.RaceKey("late-1", "abc", "gap<=0.2", 2.0, 0, 4, 50)
    run = peers.Race([peers.Raced("late", "a peer", 0.5, 1.0, math.inf, math.inf)], "code")
    with path.open("w") as file:
        peers.append_race(file, key, run)
    assert peers.read_races(path) == {key: run}
    assert key._replace(configs=51) not in peers.read_races(path)  # another budget is another race
    path.write_text('{"table": "late-1"}\n')
    with pytest.raises(AcetuneError, match="line 1, is no race of peers"):
        peers.read_races(path)
