"""What is wrong with a callback is found, and said."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from acetune import StudyCallback, Trial
from acetune.core.errors import ReportCallError
from acetune.testing import check_callback, check_study_callback


class Framework:
    """It owns the training loop: the loss falls and then rises, and the weight grows."""

    def __init__(self) -> None:
        self.stop, self.weights = False, {"w": 0.0}

    def fit(self, epochs: int, end: Callable[[Framework, float], None]) -> None:
        for epoch in range(1, epochs + 1):
            self.weights["w"] += 1.0
            end(self, abs(3.0 - epoch))
            if self.stop:
                break


def weight(model: Mapping[str, float]) -> float:
    return model["w"]


def training(
    *, declared: int | None = 5, copy: Any = dict, stops: bool = True, step: Any = None
) -> Callable[[Trial], None]:
    """A training function whose callback may leave something out."""

    def train(trial: Trial) -> None:
        if declared is not None:
            trial.declare(declared)

        def end(framework: Framework, loss: float) -> None:
            trial.report(loss, model=framework.weights, snapshot=copy, step=step)
            framework.stop = trial.should_stop and stops

        Framework().fit(5, end)

    return train


@pytest.mark.parametrize("declared", [5, None])
def test_a_good_one_passes(declared: int | None) -> None:
    check_callback(training(declared=declared), weight)
    check_callback(training(declared=declared), weight, mode="max")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"copy": None}, r"step 3, the best, is to be checked, and \[5\] was; .*snapshot="),
        ({"copy": types.MappingProxyType}, "the copy of step 3 measures 5.0 .* it was 3.0"),
        ({"stops": False}, "went on after its trial was stopped"),
        ({"step": 1}, "steps must rise, reported were"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_callback(training(**options), weight)


def test_a_snapshot_that_is_no_copy_is_an_error_of_the_trial_itself() -> None:
    with pytest.raises(ReportCallError, match="the snapshot of step 3 is the very object"):
        check_callback(training(copy=lambda model: model), weight)


def test_a_check_that_changes_training_is_found() -> None:
    def train(trial: Trial) -> None:
        weights = {"w": 0.0}
        for step in trial.steps(5):
            weights["w"] += 1.0
            trial.report(abs(3.0 - weights["w"]) + step / 10, model=weights, snapshot=dict)

    def spoils(model: dict[str, float]) -> float:
        model["w"] += 0.5
        return model["w"]

    check_callback(train, weight)
    with pytest.raises(AssertionError, match=r"let no check change it|must not change"):
        check_callback(train, spoils)


def test_a_check_that_fails_is_named() -> None:
    with pytest.raises(AssertionError, match="the check failed at step 1: KeyError"):
        check_callback(training(), lambda model: model["nothing"])


# -- in the driver -------------------------------------------------------------------------------


class Notes(StudyCallback):
    def __init__(self) -> None:
        self.heard: list[str] = []

    def on_start(self, status: Any) -> None:
        self.status = status
        self.heard.append("start")

    def on_report(self, trial: int, report: Any, decision: Any) -> None:
        self.heard.append(f"{trial}:{report.step}:{decision.stratum}:{self.status.trials}")

    def on_trial_end(self, trial: int, state: str, reason: str) -> None:
        self.heard.append(f"{trial} {state}")

    def on_end(self) -> None:
        self.heard.append("end")


def test_a_listener_hears_a_whole_study_twice() -> None:
    notes = Notes()
    check_study_callback(notes)
    half = len(notes.heard) // 2
    assert notes.heard[:4] == ["start", "1:1:valid:1", "1:2:valid:1", "1 finished"]
    assert [line for line in notes.heard if line.endswith("failed")] == ["2 failed", "5 failed"]
    assert notes.heard[half - 1 : half + 1] == ["end", "start"]
    assert "6:1:invalid:6" in notes.heard


def test_a_listener_that_raises_or_meddles_is_named() -> None:
    class Raises(StudyCallback):
        def on_trial_end(self, trial: int, state: str, reason: str) -> None:
            raise KeyError(state)

    class Meddles(Notes):
        def on_report(self, trial: int, report: Any, decision: Any) -> None:
            self.status._coordinator.stopper.history.gate = 0.0

    with pytest.raises(AssertionError, match=r"Raises.on_trial_end raised KeyError: 'finished'"):
        check_study_callback(Raises())
    with pytest.raises(AssertionError, match=r"Meddles.on_report has changed the study"):
        check_study_callback(Meddles())
    with pytest.raises(AssertionError, match=r"does not inherit from acetune.StudyCallback"):
        check_study_callback(print)  # type: ignore[arg-type]
