"""The MLflow tracker, with the real MLflow, in a folder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

mlflow = pytest.importorskip("mlflow")

import acetune  # noqa: E402
from acetune.testing import check_study_callback  # noqa: E402
from acetune.trackers.mlflow import MlflowTracker  # noqa: E402
from run.helpers import Events, tune  # noqa: E402
from trackers.studies import run_study  # noqa: E402

pytestmark = pytest.mark.filterwarnings("default")  # MLflow's own


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store in a folder: making a database takes seconds, and the client is the same."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlruns").as_uri()


def runs_of(uri: str) -> tuple[Any, dict[str, Any]]:
    """The run of the study, and those of its trials by name."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("loans")
    runs = client.search_runs([experiment.experiment_id])
    (study,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    trials = [run for run in runs if run is not study]
    assert {run.data.tags["mlflow.parentRunId"] for run in trials} == {study.info.run_id}
    return study, {run.info.run_name: run for run in trials}


def test_a_study_is_a_run_with_nested_runs(uri: str, tmp_path: Path) -> None:
    events = Events()
    tracker = MlflowTracker(uri, experiment="loans", tags={"team": "credit"})
    result = run_study(tmp_path / "first.db", tracker, events)
    assert events.notices == []

    client = mlflow.MlflowClient(tracking_uri=uri)
    study, trials = runs_of(uri)
    assert (study.info.run_name, study.info.status) == ("first", "FINISHED")
    assert study.data.params["objective"] == "loss" and study.data.params["policy"] == "ACE"
    tags = study.data.tags
    assert tags["team"] == "credit" and tags["acetune.status"] == result.status
    assert tags["acetune.limit.gap ___"].startswith("gap (%) <= 5")
    assert str(result) in tags["mlflow.note.content"]
    assert study.data.metrics["answer.loss"] == pytest.approx(1 / 3)
    assert study.data.metrics["answer.fresh.gap ___"] == 1.0
    (page,) = client.list_artifacts(study.info.run_id)
    assert page.path == "report.html" and page.file_size > 1_000_000

    assert {name: run.info.status for name, run in trials.items()} == {
        "trial-00001": "FINISHED",
        "trial-00002": "FAILED",
        "trial-00003": "FINISHED",
    }
    answer = trials["trial-00001"]
    assert (
        answer.data.params == {"x": "1.0"} and answer.data.tags["acetune.answer"] == result.status
    )
    assert "acetune.answer" not in trials["trial-00003"].data.tags
    assert trials["trial-00003"].data.tags["acetune.stratum"] == "invalid"
    losses = client.get_metric_history(answer.info.run_id, "loss")
    assert [(m.step, m.value) for m in losses] == [(1, 1.0), (2, 0.5), (3, pytest.approx(1 / 3))]
    gaps = client.get_metric_history(answer.info.run_id, "gap ___")
    assert [(m.step, m.value) for m in gaps] == [(1, 1.0), (2, 1.0), (3, 1.0)]


def test_a_study_that_goes_on_goes_on_in_its_run(uri: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"xs": [1, 2, 3], "confirm": None, "retries": 1}
    for trials in (2, 3):  # the second is tried twice
        tracker = MlflowTracker(uri, experiment="loans", report=False)
        run_study(tmp_path / "first.db", tracker, max_trials=trials, **options)
        study, runs = runs_of(uri)
        assert study.data.tags["acetune.setting.max_trials"] == str(trials)
        first = sorted(runs)[0]
        if trials == 2:  # as a driver leaves it that was killed
            client = mlflow.MlflowClient(tracking_uri=uri)
            client.update_run(runs[first].info.run_id, status="RUNNING")
    assert sorted(runs) == ["trial-00001", "trial-00002", "trial-00002-attempt-2", "trial-00003"]
    assert runs[first].info.status == "KILLED"
    assert runs["trial-00002-attempt-2"].data.tags["acetune.attempt"] == "2"


def test_a_server_that_is_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    events = Events()
    result = run_study(tmp_path / "first.db", MlflowTracker("http://127.0.0.1:9"), events)
    assert result.best is not None
    (notice,) = events.notices
    assert "MLflow could not be told" in notice and "127.0.0.1" in notice


def test_long_values_and_names_that_mlflow_does_not_take(uri: str, tmp_path: Path) -> None:
    def name_them(trial: Any) -> None:
        trial.report(1.0, **{"a/b": 1.0, "a:b": 2.0, "a b": float("nan")})

    tune(
        name_them,
        tmp_path / "first.db",
        space={"x": acetune.uniform(0, 1), "long": "y" * 900, **{f"p{n}": n for n in range(150)}},
        callbacks=[MlflowTracker(uri, experiment="loans", report=False)],
        searcher="random",
        max_trials=1,
    )
    _, trials = runs_of(uri)
    (run,) = trials.values()
    assert run.data.metrics["a_b"] == 1.0 and run.data.metrics["a_b_2"] == 2.0
    assert run.data.metrics["a b"] != run.data.metrics["a b"]
    assert len(run.data.params) == 152 and run.data.params["long"].endswith("yyy...")


def test_it_keeps_to_the_protocol_of_listeners(uri: str) -> None:
    check_study_callback(MlflowTracker(uri, experiment="loans"))


def test_a_missing_mlflow_names_the_install_command() -> None:
    code = "import sys; sys.modules['mlflow'] = None\nimport acetune; acetune.trackers.mlflow"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "MissingExtraError" in found.stderr
    assert "pip install 'acetune[mlflow]'" in found.stderr
