"""A Ray cluster of three nodes in which things die: nothing is lost and nothing counted twice.

The nodes are processes of this machine, as Ray makes them for its own tests; each has one CPU, so
that one worker fits each.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from acetune import ACE, Adaptive, Constraint, Trial
from one_ray import one_ray
from run.helpers import (
    DRIVER,
    Events,
    acknowledging,
    alive,
    append_line,
    killing,
    output_of,
    read_lines,
    report_rows,
    require_acknowledged,
    require_failed_as_killed,
    require_same_decisions,
    require_whole,
    rows,
    script,
    states,
    trial_rows,
    tune,
    wait_for,
)
from run.misbehaviour import IN_RAY, MISBEHAVIOUR, require_hurt_itself_only, run_misbehaving

EVERY_STEP = ACE(truncation=0, interval=1, gate=False)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    try:
        made.add_node(num_cpus=1)
        made.add_node(num_cpus=1, resources={"doomed": 1})
        with one_ray(made.address):
            made.wait_for_nodes()
            yield made
    finally:
        made.shutdown()


# -- workers -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")
def test_a_killed_worker_takes_its_children_along_and_its_trial_goes_on(
    study: Path, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    def train(trial: Trial) -> None:
        done = 0
        if trial.checkpoint is not None:
            done = int((trial.checkpoint / "done").read_text())
        for step in trial.steps(7):
            assert step == done + 1
            if trial.attempt == 1 and step == 6:
                shell = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=-1)
                assert shell.stdout is not None
                append_line(pids, shell.pid, int(shell.stdout.readline()), os.getpid())
                os.kill(os.getpid(), signal.SIGKILL)
            done = step
            trial.report(-step, checkpoint=lambda f, n=done: (f / "done").write_text(str(n)))

    tune(train, study, engine="ray", retries=1)

    first, second = trial_rows(study)
    assert first["reason"].startswith("its worker process died on ")
    assert "(exited, crashed, killed or out of memory)" in first["reason"]
    assert (second["state"], second["resumed_from"]) == ("finished", 5)
    steps = [(row["attempt"], row["step"]) for row in report_rows(study)]
    assert steps == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7)]
    (found,) = [[int(pid) for pid in line] for line in read_lines(pids)]
    wait_for(lambda: not any(map(alive, found)), "the worker and its children to be gone")


@pytest.mark.usefixtures("cluster")
def test_a_deed_of_training_code_hurts_its_own_trial_only(study: Path) -> None:
    run_misbehaving(study, IN_RAY, engine="ray", workers=3)
    for place, name in enumerate(IN_RAY):
        row = MISBEHAVIOUR[name]
        require_hurt_itself_only(study, place, row.in_ray or row.reason)


@pytest.mark.usefixtures("cluster")
def test_workers_killed_in_the_middle_of_things(study: Path, tmp_path: Path) -> None:
    acks = tmp_path / "acks"
    check = Constraint("g", upper=6.5, check=lambda model: model)
    options: dict[str, Any] = {"workers": 3, "engine": "ray", "retries": 5}
    with killing(acks, lambda: 0.3, most=4) as killed:
        tune(acknowledging(acks, 8, 0.02), study, xs=range(60), constraints=[check], **options)

    assert len(killed) >= 3
    assert require_acknowledged(study, acks) > 0
    last = {row["trial"]: row["state"] for row in trial_rows(study)}
    assert set(last) == set(range(1, 61)) and set(last.values()) == {"finished", "stopped"}
    require_failed_as_killed(study, killed, "its worker process died")
    require_same_decisions(study, Adaptive())


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("sent", "reason"),
    [(b"stray bytes\n", "sent what is not a message"), (b"ace\x02\0", "no report for 1 s")],
    ids=["stray", "half"],
)
def test_a_worker_that_sends_half_a_message_or_none(study: Path, sent: bytes, reason: str) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            if trial.number == 1 and step == 2:
                os.write(trial._link._link._pipe.fileno(), sent)  # type: ignore[attr-defined]
                time.sleep(600)
            trial.report(step)

    tune(train, study, xs=(1, 2), engine="ray", report_timeout_s=1.0)
    assert states(study) == ["failed", "finished"]
    assert reason in trial_rows(study)[0]["reason"]


@pytest.mark.usefixtures("cluster")
def test_a_trial_that_does_not_stop_loses_its_worker_with_its_children(
    study: Path, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"

    def train(trial: Trial) -> None:
        trial.report(1.0)
        if trial.number == 1:
            child = subprocess.Popen(["sleep", "600"])
            append_line(pids, child.pid, os.getpid())
            time.sleep(600)

    events = Events()
    tune(
        train,
        study,
        xs=(1, 2),
        engine="ray",
        report_timeout_s=0.5,
        callbacks=[events],
    )
    assert states(study) == ["failed", "finished"]
    assert trial_rows(study)[0]["reason"] == "no report for 0.5 s (report_timeout_s)"
    (found,) = [[int(pid) for pid in line] for line in read_lines(pids)]
    wait_for(lambda: not any(map(alive, found)), "the worker and its child to be gone")


# -- drivers -------------------------------------------------------------------------------------


def arguments(cluster: Cluster, study: Path, acks: Path, workers: int) -> tuple[object, ...]:
    """Of DRIVER."""
    options = {"max_trials": 30, "workers": workers, "engine": "ray"}
    return study, acks, "save", 0.02, json.dumps({**options, "ray_address": cluster.address})


def test_a_killed_driver_goes_on_where_it_was(
    cluster: Cluster, study: Path, tmp_path: Path
) -> None:
    acks, path = tmp_path / "acks", tmp_path / "driver.py"
    for known in (15, 40):
        with script(path, DRIVER, *arguments(cluster, study, acks, 2)) as driver:
            wait_for(
                lambda: driver.poll() is not None or len(read_lines(acks)) >= known,  # noqa: B023
                "reports",
            )
            driver.send_signal(signal.SIGKILL)
    workers = {int(line[-1]) for line in read_lines(acks)}
    with script(path, DRIVER, *arguments(cluster, study, acks, 2)) as driver:
        best = int(output_of(driver))
    require_whole(study, acks, 30, best)
    assert any(row["resumed_from"] for row in trial_rows(study))
    wait_for(lambda: not any(map(alive, workers)), "the workers of killed drivers to end")


def test_two_studies_at_once_in_one_cluster(cluster: Cluster, tmp_path: Path) -> None:
    studies = [(tmp_path / f"{name}.db", tmp_path / f"{name}.acks") for name in ("one", "two")]
    path = tmp_path / "driver.py"
    with (
        script(path, DRIVER, *arguments(cluster, *studies[0], 2)) as one,
        script(path, DRIVER, *arguments(cluster, *studies[1], 1)) as two,
    ):
        bests = [int(output_of(one)), int(output_of(two))]
    for (study, acks), best in zip(studies, bests, strict=True):
        require_whole(study, acks, 30, best)
    spans = [
        rows(study, "SELECT min(started) AS a, max(ended) AS b FROM trials")[0]
        for study, _ in studies
    ]
    assert max(span["a"] for span in spans) < min(span["b"] for span in spans)  # at once indeed


# -- nodes ---------------------------------------------------------------------------------------


def test_a_node_that_is_removed(cluster: Cluster, study: Path, tmp_path: Path) -> None:
    acks = tmp_path / "acks"
    doomed = next(
        node
        for node in cluster.list_all_nodes()
        if "doomed" in node.get_resource_and_label_spec().resources
    )

    def train(trial: Trial) -> None:
        node = ray.get_runtime_context().get_node_id()
        done = 0
        if trial.checkpoint is not None:
            done = int((trial.checkpoint / "done").read_text())
        for step in trial.steps(12):
            assert step == done + 1
            time.sleep(0.1)
            done = step
            value = trial.params["x"] + 1 / step
            save: Any = lambda folder, n=done: (folder / "done").write_text(str(n))  # noqa: E731
            trial.report(value, model=(trial.params["x"], step), snapshot=tuple, checkpoint=save)
            append_line(acks, trial.number, trial.attempt, step, value, node)

    removed = threading.Event()

    def remove() -> None:
        wait_for(
            lambda: sum(line[-1] == doomed.node_id for line in read_lines(acks)) >= 3,
            "a trial on the node",
        )
        cluster.remove_node(doomed, allow_graceful=False)
        removed.set()

    remover = threading.Thread(target=remove)
    remover.start()
    check = Constraint("g", upper=0.9, check=lambda model: model[1] / 20)
    try:
        result = tune(
            train,
            study,
            xs=range(8),
            workers=3,
            engine="ray",
            retries=1,
            policy=EVERY_STEP,
            constraints=[check],
        )
    finally:
        remover.join()

    assert removed.is_set()
    assert require_acknowledged(study, acks) > 0
    found = trial_rows(study)
    assert sorted({row["trial"] for row in found}) == list(range(1, 9))
    lost = [row for row in found if row["state"] == "failed"]
    assert len(lost) == 1, [row["reason"] for row in lost]
    # Ray may take a while to be sure
    assert re.search("was lost with its node|is its node down", lost[0]["reason"])
    again = [row for row in found if (row["trial"], row["attempt"]) == (lost[0]["trial"], 2)]
    assert [row["state"] in ("finished", "stopped") for row in again] == [True]
    assert again[0]["resumed_from"] >= 2  # on another node, after what it had done
    nodes = {line[-1] for line in read_lines(acks) if line[:2] == [str(lost[0]["trial"]), "2"]}
    assert doomed.node_id not in nodes
    require_same_decisions(study, EVERY_STEP)
    assert result.best is not None and result.best.constraints["g"].value <= 0.9
