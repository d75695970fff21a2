"""The same study on a Ray cluster: the same file, the same decisions. One real Ray for all."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ray

import acetune
from acetune import Constraint, Trial
from acetune.core.errors import GoalError, MissingExtraError, TrainingCodeError
from acetune.run import _ray_workers as ray_site
from acetune.run._ray_cluster import room
from acetune.run._ray_workers import RaySite
from one_ray import one_ray
from replay import test_simulator_against_live as against_replay
from run.helpers import (
    SPACE,
    Events,
    InOrder,
    append_line,
    by_hand,
    g_of,
    log_of,
    output_of,
    read_lines,
    report_rows,
    rows,
    script,
    states,
    trial_rows,
    tune,
)

LIMIT = Constraint("g", upper=2, check=g_of)
TABLE = [
    [(4.0, 1.0), (3.0, 2.0), (2.0, 3.0)],
    [(5.0, 1.0), (4.5, 1.0), (1.0, 1.5)],
    [(9.0, 9.0), (8.0, 9.0), (7.0, 9.0)],
    [(3.0, 1.0), (2.5, 1.0), (0.5, 2.5)],
]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with one_ray(num_cpus=2, num_gpus=1, resources={"licence": 1}):
        yield


def files_of(study: Path) -> Path:
    return study.with_name(study.name + ".files")


# -- the same as elsewhere -----------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ace", "asha+after"])
def test_one_worker_decides_as_the_replay(
    policy: str, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(against_replay, "tune", partial(tune, engine="ray"))
    against_replay.compare(against_replay.complete_table(), policy, study, trials=16)
    assert json.loads(rows(study, "SELECT settings FROM study")[0]["settings"])["engine"] == "ray"


def test_the_study_file_is_that_of_the_local_engine(tmp_path: Path) -> None:
    found: list[Any] = []
    for engine in ("local", "ray"):
        study = tmp_path / f"{engine}.db"
        result = tune(
            by_hand(TABLE),
            study,
            xs=range(4),
            constraints=[LIMIT],
            policy="ace-beta1",
            confirm=lambda model: {"loss": model[0], "g": model[2]},
            confirm_top=2,
            engine=engine,
        )
        assert result.best is not None and result.best.status == "holds"
        assert result.best.load() == (2, 3, 1.5)
        timeless = [
            {k: v for k, v in row.items() if k not in ("time", "snapshot_cost_s")}
            for row in report_rows(study)
        ]
        ends = [(row["trial"], row["state"], row["reason"]) for row in trial_rows(study)]
        kept = rows(study, "SELECT trial, step, kind, path, bytes FROM checkpoints")
        confirmed = rows(study, "SELECT trial, step, status, metrics FROM confirmations")
        found.append((timeless, ends, kept, confirmed))
        assert all((files_of(study) / row["path"]).is_dir() for row in kept)
    assert found[0] == found[1]


def test_blendsearch_and_the_default_number_of_workers(study: Path) -> None:
    def train(trial: Trial) -> None:
        for step in trial.steps(3):
            trial.report((trial.params["x"] - 3) ** 2 + 1 / step, model=trial.params["x"])

    check = Constraint("x", lower=0.0, check=lambda model: model)
    deadline = time.monotonic() + 60  # Ray takes back what the test before had, but not at once
    while ray.available_resources().get("CPU", 0) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    result = acetune.tune(
        train,
        {"x": acetune.uniform(-10.0, 10.0)},
        objective="loss",
        mode="min",
        constraints=[check],
        searcher="blendsearch",
        engine="ray",
        max_trials=12,
        seed=0,
        study=study,
        progress=False,
    )
    assert sum(result.counts.values()) == 12
    assert result.best is not None and result.best.constraints["x"].value >= 0
    assert json.loads(rows(study, "SELECT settings FROM study")[0]["settings"])["workers"] == 2


def test_a_study_changes_its_engine_and_back(study: Path) -> None:
    def train(trial: Trial) -> None:
        state = 0
        if trial.checkpoint is not None:
            state = int((trial.checkpoint / "state").read_text())
        for step in trial.steps(4):
            assert step == state + 1
            state = step
            if trial.number % 2 == 0 and trial.attempt == 1 and step == 3:
                raise ValueError("as it happens")
            trial.report(trial.number / step, checkpoint=partial(save, state))

    def save(state: int, folder: Path) -> None:
        (folder / "state").write_text(str(state))

    options: dict[str, Any] = {"policy": "none"}
    tune(train, study, max_trials=2, **options)
    tune(train, study, max_trials=4, engine="ray", retries=1, **options)
    tune(train, study, max_trials=6, retries=1, **options)

    ended = [(row["trial"], row["attempt"], row["state"]) for row in trial_rows(study)]
    assert [row for row in ended if row[2] == "failed"] == [
        (2, 1, "failed"),
        (4, 1, "failed"),
        (6, 1, "failed"),
    ]
    resumed = [row["resumed_from"] for row in trial_rows(study) if row["attempt"] == 2]
    assert resumed == [2, 2, 2]
    assert len(report_rows(study)) == 6 * 4


# -- what a worker gets --------------------------------------------------------------------------


def test_resources_device_threads_and_log(study: Path, tmp_path: Path) -> None:
    seen = tmp_path / "seen"

    def train(trial: Trial) -> None:
        import ray as inside

        print("a word for the log")
        given = inside.get_runtime_context().get_assigned_resources()
        append_line(seen, trial.device, trial.threads, os.environ["OMP_NUM_THREADS"], os.getpid())
        append_line(tmp_path / "given", json.dumps(given))
        while len({line[3] for line in read_lines(seen)}) < 2:  # until the other is there too
            time.sleep(0.01)
        trial.report(1.0)

    events = Events()
    tune(
        train,
        study,
        xs=(1, 2),
        workers=2,
        engine="ray",
        resources={"cpu": 0.5, "gpu": 0.5, "licence": 0.5},
        threads=3,
        callbacks=[events],
    )
    assert {tuple(line[:3]) for line in read_lines(seen)} == {("cuda:0", "3", "3")}
    given = json.loads((tmp_path / "given").read_text().splitlines()[0])
    assert given == {"CPU": 0.5, "GPU": 0.5, "licence": 0.5}
    assert "a word for the log" in log_of(study, 1)
    assert not events.notices
    assert not list(files_of(study).glob(".acetune-*"))


def test_objects_of_ray_are_at_hand_in_trials(study: Path) -> None:
    data = ray.put([1.0, 2.0, 3.0])

    def train(trial: Trial) -> None:
        trial.report(sum(ray.get(data)))

    tune(train, study, engine="ray", report_timeout_s=20.0)
    assert [row["objective"] for row in report_rows(study)] == [6.0]


def test_some_workers_find_room_and_others_wait(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_site, "_NO_ROOM_S", 0.5)

    def train(trial: Trial) -> None:
        for _ in trial.steps(3):
            time.sleep(0.2)
            trial.report(1.0)

    events = Events()
    options: dict[str, Any] = {"xs": (1, 2, 3), "workers": 2, "callbacks": [events]}
    tune(train, study, engine="ray", resources={"cpu": 1, "licence": 1}, **options)
    assert states(study) == ["finished"] * 3
    assert any(
        text.startswith(("1 worker waits for room", "2 workers wait for room"))
        and "asks for 1 cpu, 1 licence" in text
        for text in events.notices
    )


def test_workers_that_find_no_room_are_said_so(study: Path) -> None:
    def train(trial: Trial) -> None:
        trial.report(1.0)

    events = Events()
    tune(
        train,
        study,
        engine="ray",
        resources={"licence": 5},
        time_budget_s=1.0,
        callbacks=[events],
    )
    assert len(events.notices) == 1
    assert events.notices[0].startswith(
        "1 worker waits for room in the Ray cluster: each asks for 1 cpu, 5 licence, and"
    )
    assert "1 licence" in events.notices[0] and "no node is large enough" in events.notices[0]
    assert states(study) == []


@pytest.mark.parametrize(
    ("node", "asked", "workers"),
    [
        ({"CPU": 8}, {"cpu": 1}, 8),
        ({"CPU": 8}, {"cpu": 3}, 2),
        ({"CPU": 1}, {"cpu": 0.1}, 10),
        ({"CPU": 8, "GPU": 2}, {"cpu": 1, "gpu": 0.5}, 4),
        ({"CPU": 8, "GPU": 2}, {"cpu": 1, "gpu": 0.4}, 4),  # not 5: no GPU is split over workers
        ({"CPU": 8, "GPU": 1}, {"cpu": 1, "gpu": 2}, 0),
        ({"CPU": 8}, {"cpu": 1, "gpu": 0}, 8),
        ({"CPU": 8, "licence": 3}, {"cpu": 0, "licence": 1}, 3),
        ({"CPU": 8}, {"cpu": 1, "licence": 1}, 0),
    ],
)
def test_how_many_workers_fit_a_node(
    node: dict[str, float], asked: dict[str, float], workers: int
) -> None:
    assert room(node, asked) == workers


# -- workers that do not see the study's folder --------------------------------------------------


def test_models_and_checkpoints_travel_where_the_folder_is_not_seen(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = f".acetune-{secrets.token_hex(8)}"  # that nobody has left
    monkeypatch.setattr(RaySite, "_leave_mark", lambda self: mark)
    elsewhere = tmp_path / "elsewhere"

    def train(trial: Trial) -> None:
        state = 0
        if trial.checkpoint is not None:
            state = int((trial.checkpoint / "deep" / "state").read_text())
            assert (trial.checkpoint / "large").stat().st_size == 3_000_000
        folder = elsewhere / str(trial.number)
        folder.mkdir(parents=True, exist_ok=True)

        def save(target: Path) -> None:
            (target / "deep").mkdir()
            (target / "deep" / "state").write_text(str(state))
            (target / "large").write_bytes(bytes(3_000_000))

        for step in trial.steps(4):
            assert step == state + 1
            state = step
            if trial.number == 2 and trial.attempt == 1 and step == 3:
                os._exit(3)
            (folder / "weights").write_text(f"{trial.number} {step}")
            trial.report(trial.params["x"] / step, model=folder, checkpoint=save)
        append_line(tmp_path / "folders", trial.folder)

    def number_of(model: Path) -> float:
        assert str(study) not in str(model)  # a copy of the worker's own
        return float((model / "weights").read_text().split()[0])

    events = Events()
    result = tune(
        train,
        study,
        xs=(4, 3, 2),
        engine="ray",
        retries=1,
        policy="none+after",
        constraints=[Constraint("n", upper=2.5, check=number_of)],
        confirm=lambda model: {"n": number_of(model)},
        callbacks=[events],
    )

    assert result.best is not None and result.best.status == "holds"
    assert (result.best.trial, result.best.step) == (2, 4)
    assert (result.best.checkpoint / "folder" / "weights").read_text() == "2 4"
    second = [row for row in trial_rows(study) if row["trial"] == 2]
    assert [(row["state"], row["resumed_from"]) for row in second] == [
        ("failed", 0),
        ("finished", 2),
    ]
    assert [n for n in events.notices if "does not see" in n] == events.notices
    assert len(events.notices) == 1
    folders = {line[0] for line in read_lines(tmp_path / "folders")}
    assert all(mark.strip(".") in folder for folder in folders)
    # what was sent is kept in one place only, and nothing but that was written to the study's
    here = Path(next(iter(folders))).parents[1]
    assert len(list(here.rglob("log.txt"))) == 4 and not list(here.glob("*/*/model-*"))
    shutil.rmtree(here)
    assert not list(files_of(study).rglob("log.txt"))
    assert len(list(files_of(study).glob("*/*/model-*"))) == len(
        rows(study, "SELECT 1 FROM checkpoints")
    )


# -- what can go wrong ---------------------------------------------------------------------------


def test_a_check_that_hangs(study: Path) -> None:
    def check(model: int) -> float:
        time.sleep(0.0 if model != 1 else 100)
        return 0.0

    def train(trial: Trial) -> None:
        trial.report(float(trial.number), model=trial.number)

    tune(
        train,
        study,
        xs=(1, 2),
        engine="ray",
        policy="ace-beta1",
        constraints=[Constraint("g", upper=1, check=check, timeout_s=0.5)],
    )
    assert states(study) == ["failed", "finished"]
    assert "outran its timeout of 0.5 s" in trial_rows(study)[0]["reason"]


def test_training_code_that_cannot_be_loaded(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "only_in_the_driver.py"
    module.write_text("def train(trial):\n    trial.report(1.0)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import only_in_the_driver  # type: ignore[import-not-found]

    module.unlink()
    with pytest.raises(TrainingCodeError, match="could not load the training function"):
        acetune.tune(
            only_in_the_driver.train,
            SPACE,
            objective="loss",
            mode="min",
            max_trials=1,
            workers=1,
            engine="ray",
            study=study,
            progress=False,
        )


WITHOUT = """
import sys, acetune, ray
def attempt(**options):
    try:
        acetune.tune(lambda trial: trial.report(1.0), {"x": acetune.uniform(0, 1)},
            objective="loss", mode="min", max_trials=1, engine="ray", progress=False,
            study="study.db", **options)
    except acetune.AcetuneError as error:
        print(type(error).__name__, error, flush=True)
    assert not ray.is_initialized()
attempt(ray_address="127.0.0.1:9")
attempt(resources={"licence": 1})
"""


def test_a_cluster_that_is_not_there_or_too_small(tmp_path: Path) -> None:
    with script(tmp_path / "driver.py", WITHOUT) as driver:
        nobody, small = output_of(driver).splitlines()
    assert nobody.startswith("StudyError cannot connect to Ray at '127.0.0.1:9': ")
    assert "ray start --head" in nobody
    assert small.startswith(
        "GoalError no worker with 1 cpu, 1 licence fits this machine, which has"
    )
    assert not (tmp_path / "study.db").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "spark"}, "engine must be 'local' or 'ray', got 'spark'"),
        ({"resources": {"cpu": 1}}, "needs engine='ray'"),
        ({"ray_address": "auto"}, "ray_address='auto' needs engine='ray'"),
        ({"engine": "ray", "devices": [0]}, 'resources={"gpu": 1}'),
        ({"engine": "ray", "ray_address": "ray://head:10001"}, "got 'ray://head:10001'"),
        ({"engine": "ray", "resources": ["gpu"]}, "must be a dict"),
        ({"engine": "ray", "resources": {"gpu": -1}}, r"resources\['gpu'\] must be a number >= 0"),
        ({"engine": "ray", "resources": {"gpu": True}}, "must be a number >= 0, got True"),
        ({"engine": "ray", "resources": {"gpu": 1.5}}, "above 1 must be a whole number, got 1.5"),
        ({"engine": "ray", "resources": {"gpu": 1e-5}}, "at least 0.0001"),
        ({"engine": "ray", "resources": {"cpu": 0}}, "must ask for something"),
        ({"engine": "ray", "resources": {"": 1}}, "has no kind ''"),
    ],
)
def test_options_that_make_no_sense(study: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(GoalError, match=message):
        tune(by_hand(TABLE), study, **options)
    assert not study.exists()


def test_a_missing_package_names_the_install_command(
    study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'acetune\[ray\]'"):
        tune(by_hand(TABLE), study, engine="ray")


def test_a_dry_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = acetune.tune(
        by_hand(TABLE),
        SPACE,
        objective="loss",
        mode="min",
        constraints=[LIMIT],
        searcher=InOrder([0.0]),
        confirm=lambda model: {"g": model[2]},
        max_trials=4,
        engine="ray",
        progress=False,
        dry_run=True,
    )
    assert found.total_steps == 3 and set(found.checks_s) == {"g"} and found.confirm_s is not None
    assert not list(tmp_path.iterdir())
