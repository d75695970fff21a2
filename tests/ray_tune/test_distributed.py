"""A data-parallel trial on a real Ray Tune: the trainable is rank 0, and starts rank 1."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Listener
from pathlib import Path
from typing import Any

import pytest

import acetune.ray
from acetune.distributed import Broadcast, SharedTrial
from acetune.ray import AceScheduler

from .helpers import EOD, fit, rows, wait_for

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

RANK_ONE = """
import json, os, sys
from multiprocessing.connection import Client
from pathlib import Path

from acetune.distributed import SharedTrial

address, notes = sys.argv[1:]
rank_zero = Client(address)
found = {"pid": os.getpid(), "steps": [], "error": ""}

def broadcast(_):
    word = rank_zero.recv()
    rank_zero.send("heard")
    return word

try:
    shared = SharedTrial(None, broadcast)
    for step in shared.steps():
        found["steps"].append(step)
        shared.report(auc=0.0)  # not looked at
    found["stop"], found["reason"] = shared.should_stop, shared.stop_reason
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
Path(notes + ".part").write_text(json.dumps(found))
Path(notes + ".part").rename(notes)
"""


@contextmanager
def rank_one(notes: str) -> Iterator[Broadcast]:
    """The other process. Ray kills the children and the process group of a worker that ends, and
    this one is in neither: it has to leave by itself."""
    with tempfile.TemporaryDirectory() as folder, Listener(f"{folder}/socket") as listener:
        command = [sys.executable, "-c", RANK_ONE, str(listener.address), notes]
        subprocess.run(["sh", "-c", '"$@" &', "sh", *command], check=True, start_new_session=True)
        with listener.accept() as connection:

            def broadcast(word: Any) -> Any:
                connection.send(word)
                assert connection.recv() == "heard"  # the ranks of a training wait for each other
                return word

            yield broadcast


def trainable(config: dict[str, Any]) -> None:
    curve, notes = config["case"]["curve"], config["case"]["notes"]
    with (
        rank_one(notes) as broadcast,
        acetune.ray.trial(total_steps=len(curve), params={"curve": curve}) as trial,
    ):
        shared = SharedTrial(trial, broadcast)
        for step in shared.steps():
            shared.report(auc=curve[step - 1], constraints={"eod": lambda: 0.25})


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


@pytest.mark.parametrize("reuse_actors", [True, False])
def test_both_ranks_end_at_the_same_step(reuse_actors: bool, tmp_path: Path) -> None:
    curves: list[list[Any]] = [
        [0.5, 0.6, 0.7, 0.8],
        [0.5, 0.6, "much", 0.8],
        [0.5, 0.6, 0.1, 0.1],
    ]
    cases = [
        {"curve": curve, "notes": str(tmp_path / f"{number}.json")}
        for number, curve in enumerate(curves)
    ]
    scheduler = AceScheduler([EOD], "ace:truncation=0.5")
    grid = fit(trainable, tmp_path, cases, scheduler=scheduler, reuse_actors=reuse_actors)
    assert len(grid.errors) == 1
    states = rows(tmp_path, "SELECT state FROM trials ORDER BY trial")
    assert [row["state"] for row in states] == ["finished", "failed", "stopped"]
    steps = "SELECT max(step) AS last FROM reports GROUP BY trial ORDER BY trial"
    assert [row["last"] for row in rows(tmp_path, steps)] == [4, 2, 3]

    for case in cases:
        wait_for(Path(case["notes"]).exists)
    finished, failed, stopped = (json.loads(Path(case["notes"]).read_text()) for case in cases)
    assert finished["steps"] == [1, 2, 3, 4]
    assert not finished["stop"]
    assert not finished["error"]
    assert failed["steps"] == [1, 2, 3]
    assert failed["error"].startswith("ReportError: rank 0 failed in report(): ReportError: ")
    assert "much" in failed["error"]
    assert stopped["steps"] == [1, 2, 3]
    assert stopped["stop"]
    assert stopped["reason"] == "stopped by the scheduler"
    for notes in (finished, failed, stopped):
        wait_for(lambda pid=notes["pid"]: not alive(pid))
