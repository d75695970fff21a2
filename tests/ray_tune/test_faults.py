"""What goes wrong on a cluster, on a real Ray: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import tune

from acetune.ray import AceScheduler, best_result
from acetune.ray.broadcast import NAMESPACE

from . import trainables
from .driver import XS
from .helpers import EOD, fit, rows, wait_for
from .trainables import auc, eod

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ATTEMPTS = "SELECT * FROM trials ORDER BY trial, attempt"


def best_of(limit: float = 0.5, steps: int = 10) -> str:
    """What a driver says it has found, by looking at all there is."""
    pairs = [(x, s) for x in XS for s in range(1, steps + 1) if eod(x, s) <= limit]
    x, step = max(pairs, key=lambda pair: auc(*pair))
    return f"best {x} {step}"


def check_the_books(folder: Path, trials: int) -> None:
    """Whatever happened: each trial once, each report once, and only valid ones called valid."""
    attempts = rows(folder, ATTEMPTS)
    last = {row["trial"]: row for row in attempts}
    assert len(last) == trials
    assert {row["state"] for row in last.values()} <= {"finished", "stopped"}
    names = rows(folder, "SELECT name FROM names")
    assert len({row["name"] for row in names}) == len(names) == trials
    twice = "SELECT trial FROM reports GROUP BY trial, attempt, step, kind HAVING count(*) > 1"
    assert rows(folder, twice) == []
    for number, row in last.items():
        steps = [
            found["step"]
            for found in rows(
                folder,
                f"SELECT step FROM reports WHERE trial = {number} AND kind = 'step' AND "
                f"attempt = {row['attempt']} ORDER BY seq",
            )
        ]
        assert steps == list(range(row["resumed_from"] + 1, row["resumed_from"] + 1 + len(steps)))
    wrong = (
        "SELECT * FROM reports JOIN checks USING (seq) WHERE (stratum = 'valid') != (value <= 0.5)"
    )
    assert rows(folder, wrong) == []


def drive(*words: object, **variables: str) -> subprocess.Popen[str]:
    tests = Path(__file__).parent.parent
    path = os.pathsep.join(filter(None, [str(tests), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        [sys.executable, "-m", "ray_tune.driver", *map(str, words)],
        cwd=tests,
        env={
            **os.environ,
            "PYTHONPATH": path,
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
            **variables,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def said(driver: subprocess.Popen[str]) -> str:
    output, _ = driver.communicate(timeout=170)
    assert driver.returncode == 0, output[-3000:]
    return output


class KillBroadcast(tune.Callback):  # type: ignore[misc]
    """Kills the broadcast when so many reports have come in."""

    def __init__(self, after: int) -> None:
        self.left = after

    def on_trial_result(self, **_: Any) -> None:
        self.left -= 1
        if self.left == 0:
            actors = ray.util.list_named_actors(all_namespaces=True)
            names = [actor["name"] for actor in actors if actor["namespace"] == NAMESPACE]
            for name in names:
                ray.kill(ray.get_actor(name, namespace=NAMESPACE))


@pytest.mark.usefixtures("local_ray")
def test_the_broadcast_is_killed(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "acetune.ray"):
        grid = fit(
            trainables.slow,
            tmp_path,
            scheduler=AceScheduler([EOD], "ace-beta1"),
            concurrent=2,
            callbacks=[KillBroadcast(after=14)],
            x=tune.grid_search(XS),
        )
    assert "is gone; making it again" in caplog.text  # the driver
    assert "cannot reach the broadcast" in caplog.text  # a worker, which went on
    assert grid.num_errors == 0
    check_the_books(tmp_path, len(XS))
    best = best_result(grid)
    assert best is not None
    assert f"best {best.config['x']} {best.step}" == best_of()


@pytest.mark.usefixtures("local_ray")
@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_worker_is_killed(checkpoint: bool, tmp_path: Path) -> None:
    options = {"scratch": str(tmp_path), "fails": 0.4, "kill": True, "checkpoint": checkpoint}
    grid = fit(trainables.resumable, tmp_path, x=tune.grid_search(XS), failures=1, **options)
    assert grid.num_errors == 0
    check_the_books(tmp_path, len(XS))
    first, second = (row for row in rows(tmp_path, ATTEMPTS) if '"x": 0.4,' in row["params"])
    assert (first["state"], second["resumed_from"]) == ("failed", 3 if checkpoint else 0)
    assert "died" in first["reason"]
    best = best_result(grid)
    assert best is not None
    assert f"best {best.config['x']} {best.step}" == best_of(steps=6)


@pytest.mark.usefixtures("local_ray")
def test_two_experiments_at_once_in_one_cluster(tmp_path: Path) -> None:
    address = ray.get_runtime_context().gcs_address
    folders = tmp_path / "loose", tmp_path / "strict"
    limits = 0.5, 0.4
    drivers = [
        drive("fit", folder, address, limit) for folder, limit in zip(folders, limits, strict=True)
    ]
    for driver, folder, limit in zip(drivers, folders, limits, strict=True):
        assert f"errors 0 trials {len(XS)} {best_of(limit)}" in said(driver)
        assert len(rows(folder, ATTEMPTS)) == len(XS)
    check_the_books(folders[0], len(XS))


def test_a_node_is_taken_away(tmp_path: Path) -> None:
    output = said(drive("cluster", tmp_path))
    assert "node removed" in output and "nodes 2" in output
    assert f"errors 0 trials {len(XS)} {best_of()}" in output
    check_the_books(tmp_path, len(XS))
    lost = [row for row in rows(tmp_path, ATTEMPTS) if row["state"] in ("failed", "interrupted")]
    assert lost  # somebody was on that node


def test_in_a_cluster_that_asks_for_a_token(tmp_path: Path) -> None:
    """Both ways of using Ray; who has no token is not let in."""
    token = tmp_path / "token"
    token.write_text(secrets.token_hex(32))
    asks = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}
    output = said(drive("token", tmp_path, **asks))
    assert f"errors 0 trials {len(XS)} {best_of(steps=5)}" in output
    assert "study certified {'finished': 3}" in output
    assert "without a token: refused" in output
    check_the_books(tmp_path, len(XS))


def test_the_driver_is_killed_and_the_experiment_restored(tmp_path: Path) -> None:
    driver = drive("fit", tmp_path)
    study = tmp_path / "experiment" / "acetune.db"
    wait_for(study.exists, 90)
    wait_for(lambda: len(rows(tmp_path, "SELECT * FROM reports")) >= 15, 90)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.communicate()
    before = rows(tmp_path, "SELECT * FROM reports ORDER BY seq")
    output = said(drive("restore", tmp_path))
    assert f"errors 0 trials {len(XS)} {best_of()}" in output
    after = rows(tmp_path, "SELECT * FROM reports ORDER BY seq")
    assert after[: len(before)] == before
    check_the_books(tmp_path, len(XS))
    again = [row for row in rows(tmp_path, ATTEMPTS) if row["attempt"] > 1]
    assert again  # what was under way was trained again
