"""The Weights & Biases tracker, with the real wandb, offline."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

wandb = pytest.importorskip("wandb")

from wandb.proto import wandb_internal_pb2  # noqa: E402

from acetune.testing import check_study_callback  # noqa: E402
from acetune.trackers.wandb import WandbTracker  # noqa: E402
from run.helpers import Events  # noqa: E402
from trackers.studies import run_study  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # wandb's own


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))  # no settings of the user's
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    yield
    wandb.teardown()


def written(path: Path) -> Iterator[bytes]:
    """The records of a file of wandb: blocks of 32 KiB with the parts of records, as in LevelDB."""
    data, at, parts = path.read_bytes(), 7, b""
    while at < len(data):
        if (room := 32768 - at % 32768) < 7:  # too little for another part
            at += room
            continue
        length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield parts
            parts = b""


class Offline:
    """A run as wandb has written it, for ``wandb sync``."""

    def __init__(self, path: Path) -> None:
        self.history: list[dict[str, Any]] = []
        self.config: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.artifacts: list[Any] = []
        self.exit_code = None
        for data in written(path):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                self.run = record.run
                self._read(record.run.config.update, self.config)
            elif kind == "history":
                row: dict[str, Any] = {}
                self._read(record.history.item, row)
                self.history.append(row)
            elif kind == "summary":
                self._read(record.summary.update, self.summary)
            elif kind == "artifact":
                self.artifacts.append(record.artifact)
            elif kind == "request" and record.request.HasField("log_artifact"):
                self.artifacts.append(record.request.log_artifact.artifact)
            elif kind == "exit":
                self.exit_code = record.exit.exit_code

    @staticmethod
    def _read(items: Any, into: dict[str, Any]) -> None:
        for item in items:
            into[item.key or ".".join(item.nested_key)] = json.loads(item.value_json)

    def series(self, name: str) -> list[tuple[int, float]]:
        return [(row["step"], row[name]) for row in self.history if name in row]


def offline_runs(folder: Path) -> dict[str, Offline]:
    found = [Offline(path) for path in folder.glob("wandb/offline-run-*/*.wandb")]
    return {run.run.display_name: run for run in found}


def test_a_study_is_a_group_of_runs(tmp_path: Path) -> None:
    own = wandb.init(project="mine", dir=str(tmp_path / "own"), settings={"silent": True})
    events = Events()
    tracker = WandbTracker(project="loans", folder=tmp_path, tags=["credit"])
    result = run_study(tmp_path / "first.db", tracker, events)
    assert wandb.run is own  # a run of the user's is left alone
    own.finish()
    assert events.notices == []

    runs = offline_runs(tmp_path)
    assert sorted(runs) == ["first", "trial-00001", "trial-00002", "trial-00003"]
    assert len({run.run.run_group for run in runs.values()}) == 1
    assert {run.run.project for run in runs.values()} == {"loans"}
    assert all(list(run.run.tags) == ["credit"] for run in runs.values())
    study, answer = runs["first"], runs["trial-00001"]
    assert (study.run.job_type, answer.run.job_type) == ("study", "trial")
    assert study.config["objective"] == "loss" and "space.x" in study.config
    assert study.summary["status"] == result.status
    assert study.summary["answer.loss"] == pytest.approx(1 / 3)
    assert study.summary["answer.run"] == answer.run.run_id
    assert str(result).splitlines()[0] in study.run.notes
    (page,) = study.artifacts
    assert page.type == "report"
    assert [entry.path for entry in page.manifest.contents] == ["report.html"]

    assert answer.config["x"] == 1 and answer.config["trial"] == 1
    assert answer.series("loss") == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    assert answer.series("gap (%)") == [(1, 1.0), (2, 1.0), (3, 1.0)]
    assert answer.summary["stratum"] == "valid" and answer.summary["best.step"] == 3
    assert [runs[name].exit_code for name in sorted(runs)] == [0, 0, 1, 0]
    assert "as it happens" in runs["trial-00002"].summary["reason"]


def test_it_keeps_to_the_protocol_of_listeners(tmp_path: Path) -> None:
    check_study_callback(WandbTracker(folder=tmp_path))


def test_a_missing_wandb_names_the_install_command() -> None:
    code = "import sys; sys.modules['wandb'] = None\nimport acetune; acetune.trackers.wandb"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError" in found.stderr
    assert "pip install 'acetune[wandb]'" in found.stderr
