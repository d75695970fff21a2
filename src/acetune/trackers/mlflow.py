"""MLflow: a listener that writes a study as a run with a nested run per trial.

Needs ``pip install 'acetune[mlflow]'``.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acetune.core.errors import MissingExtraError
from acetune.core.formatting import cut
from acetune.trackers._tracker import Attempt, Begun, Ended, Fact, Tracker, Values

try:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, Run, RunTag, ViewType
except ImportError as error:
    raise MissingExtraError("MLflow", "mlflow") from error

__all__ = ["MlflowTracker"]

# what MLflow takes at most
_METRICS, _PARAMS, _TAGS = 800, 100, 100  # in a call, which may have 1,000 of all together
_PARAM_LENGTH, _TAG_LENGTH = 500, 5000
_STATES = {"failed": "FAILED", "interrupted": "KILLED"}  # others are FINISHED
_KEY = "acetune.key"  # the tag by which a study that goes on finds its runs


class MlflowTracker(Tracker):
    """Writes a study to MLflow: a run for the study, and a nested run for each trial.

    For ``tune(callbacks=[MlflowTracker()])``. It uses a client of its own: runs that you have begun
    with ``mlflow.start_run`` are left alone. A study that goes on goes on in the same run.

    Parameters
    ----------
    tracking_uri:
        The server, or a database such as ``"sqlite:///mlflow.db"``; MLflow's own setting by
        default.
    experiment:
        The experiment, made where there is none of that name; by default
        ``MLFLOW_EXPERIMENT_NAME``, else ``"acetune"``.
    tags:
        Further tags of the study's run.
    report:
        Whether to keep the report page as an artifact of the study's run.
    wait_s:
        At the end the study waits until all is sent, but no longer than this without an answer.

    >>> from acetune.trackers.mlflow import MlflowTracker
    >>> tracker = MlflowTracker("sqlite:///mlflow.db", experiment="loans")
    """

    def __init__(
        self,
        tracking_uri: str | None = None,
        *,
        experiment: str | None = None,
        tags: Mapping[str, str] | None = None,
        report: bool = True,
        wait_s: float = 30.0,
    ) -> None:
        experiment = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "acetune"
        service = _Mlflow(tracking_uri, experiment, dict(tags or {}))
        super().__init__(service, report=report, wait_s=wait_s)


class _Mlflow:
    """MLflow, as it is told."""

    name = "MLflow"

    def __init__(self, uri: str | None, experiment: str, tags: Mapping[str, str]) -> None:
        self._uri, self._experiment_name, self._tags = uri, experiment, tags
        self._client: Any = None
        self._experiment = ""
        self._study = ""  # run ids
        self._runs: dict[Attempt, str] = {}
        self._held: dict[str, list[Any]] = {}  # metrics to be sent together, by run
        self._names: dict[str, str] = {}

    def begin(self, study: Begun) -> None:
        client = self._client = MlflowClient(tracking_uri=self._uri)
        found = client.get_experiment_by_name(self._experiment_name)
        self._experiment = (
            client.create_experiment(self._experiment_name)
            if found is None
            else found.experiment_id
        )
        self._runs.clear()
        earlier = self._search(f"tags.`{_KEY}` = '{study.key}'")
        if earlier:
            self._study = earlier[0].info.run_id
            client.update_run(self._study, status="RUNNING")
            self._take_up()
        else:
            tags = {_KEY: study.key, **self._tags}
            self._study = self._create(study.name, tags, study.params)
        self._send(self._study, tags=_own(study.facts))

    def begin_trial(self, run: Attempt, params: Mapping[str, Any]) -> None:
        own = _own({"trial": run.trial, "attempt": run.number})
        tags = {"mlflow.parentRunId": self._study, **own}
        self._runs[run] = self._create(run.name, tags, params)

    def log(self, run: Attempt | None, values: Values) -> None:
        held = self._held.setdefault(self._id(run), [])
        held.extend(
            Metric(self._named(name), value, round(values.time * 1000), values.step)
            for name, value in values.values.items()
        )
        if len(held) >= _METRICS:
            self.flush()

    def end_trial(self, run: Attempt, state: str, facts: Mapping[str, Fact]) -> None:
        run_id = self._id(run)
        self._send(run_id, self._held.pop(run_id, []), _own(facts))
        self._client.set_terminated(run_id, _STATES.get(state, "FINISHED"))

    def end(self, ended: Ended) -> None:
        answer = {f"answer.{name}": value for name, value in ended.values.items()}
        self.log(None, Values(0, answer, time.time()))
        self.flush()
        # MLflow shows a note as the description of the run
        note = {"mlflow.note.content": f"```\n{ended.summary}\n```"}
        self._send(self._study, tags=_own(ended.facts) | note)
        if ended.answer is not None:
            self._send(self._id(ended.answer), tags=_own({"answer": ended.status}))
        if ended.report is not None:
            self._client.log_artifact(self._study, str(ended.report))
        self._client.set_terminated(self._study, _STATES.get(ended.state, "FINISHED"))

    def flush(self) -> None:
        for run_id, metrics in self._held.items():
            self._send(run_id, metrics)
        self._held.clear()

    def _take_up(self) -> None:
        """The runs of earlier sessions; those that a killed driver has left running end here."""
        for found in self._search(f"tags.`mlflow.parentRunId` = '{self._study}'"):
            tags = found.data.tags
            run = Attempt(int(tags["acetune.trial"]), int(tags["acetune.attempt"]))
            self._runs[run] = found.info.run_id
            if found.info.status == "RUNNING":
                self._client.set_terminated(found.info.run_id, "KILLED")

    def _search(self, query: str) -> list[Run]:
        found: list[Run] = []
        token = None
        while True:
            page = self._client.search_runs(
                [self._experiment], query, ViewType.ACTIVE_ONLY, page_token=token
            )
            found.extend(page)
            token = page.token
            if not token:
                return found

    def _create(self, name: str, tags: Mapping[str, str], params: Mapping[str, Any]) -> str:
        run = self._client.create_run(self._experiment, run_name=name, tags=dict(tags))
        run_id = str(run.info.run_id)
        known = [
            Param(self._named(name), cut(str(value), _PARAM_LENGTH, "..."))
            for name, value in params.items()
        ]
        for start in range(0, len(known), _PARAMS):
            self._client.log_batch(run_id, params=known[start : start + _PARAMS])
        return run_id

    def _id(self, run: Attempt | None) -> str:
        return self._study if run is None else self._runs[run]

    def _send(
        self, run_id: str, metrics: Sequence[Any] = (), tags: Mapping[str, str] | None = None
    ) -> None:
        """Metrics and tags, in as few calls as MLflow allows."""
        known = [
            RunTag(self._named(name), cut(text, _TAG_LENGTH, "..."))
            for name, text in (tags or {}).items()
        ]
        for part in range(max(-(-len(metrics) // _METRICS), -(-len(known) // _TAGS))):
            self._client.log_batch(
                run_id,
                metrics=metrics[part * _METRICS : (part + 1) * _METRICS],
                tags=known[part * _TAGS : (part + 1) * _TAGS],
            )

    def _named(self, name: str) -> str:
        """A name that MLflow takes: a different one for each name."""
        if name not in self._names:
            taken = set(self._names.values())
            wanted = found = re.sub(r"[^\w .-]", "_", name)
            number = 2
            while found in taken:
                found, number = f"{wanted}_{number}", number + 1
            self._names[name] = found
        return self._names[name]


def _own(facts: Mapping[str, Fact]) -> dict[str, str]:
    """Facts as tags of acetune's own."""
    return {f"acetune.{name}": str(value) for name, value in facts.items() if value is not None}
