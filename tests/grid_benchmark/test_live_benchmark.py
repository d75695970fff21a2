"""The live runs: peers on a task of a moment, the file of matches, what the page says of them."""

from __future__ import annotations

import importlib
import itertools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acetune.core.errors import AcetuneError
from acetune.core.goals import Constraint
from acetune.replay.training import Task
from acetune.searchers.space import lograndint, uniform
from benchmarks.live_contenders import PEERS, Known, Ran, ran_from_json, ran_to_json, run_peer
from benchmarks.live_matches import (
    Match,
    MatchKey,
    append_match,
    play,
    reached_s,
    read_matches,
    summarise,
)
from benchmarks.population_runs import appending

ROOT = Path(__file__).resolve().parents[2]
KEY = MatchKey("toy", "toy-made", "size <= 5", "optuna-median", 0, 10.0)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module("benchmarks.live")


def ran(*known: tuple[float, float], unlimited: float | None = 0.9, held: float = 0.5) -> Ran:
    return Ran(
        tuple(Known(time, value, {"size": 3.0}) for time, value in known),
        {"auc": held, "size": 6.0} if known else None,
        unlimited,
        trials=4,
        steps=20,
        checks=4,
        first_step_s=0.5,
        worked_s=10.0,
    )


def match(ours: Ran, theirs: Ran, mode: Any = "max", code: str = "abc") -> Match:
    return Match(mode, ours, theirs, (0, 1), code)


# -- peers -----------------------------------------------------------------------------------------


def toy() -> Task:
    """The objective grows with the steps, and so does what is limited."""

    def train(trial: Any) -> None:
        for step in trial.steps(trial.params["steps"]):
            model = {"step": step}
            trial.report(auc=trial.params["slope"] * step, model=model, snapshot=dict)

    return Task(
        "toy",
        train,
        {"steps": lograndint(2, 20), "slope": uniform(0.0, 1.0)},
        "auc",
        "max",
        (Constraint("size", upper=5, check=lambda model: model["step"]),),
        lambda model: {"auc": _Value(0.5), "size": _Value(model["step"])},
    )


class _Value:
    def __init__(self, value: float) -> None:
        self.value = value


def ticking() -> Iterator[float]:
    return map(float, itertools.count())


@pytest.mark.parametrize("name", PEERS)
def test_a_peer_finds_what_the_limit_allows(name: str) -> None:
    task, times = toy(), ticking()
    found = run_peer(task, PEERS[name][1](task, 0, 20), 400.0, clock=lambda: next(times))
    assert found.trials == found.checks > 10
    assert found.steps <= 401 and found.worked_s >= 400  # the last trial ended with its step
    assert all(known.constraints["size"] <= 5 for known in found.known)
    values = [known.value for known in found.known]
    assert values == sorted(set(values)) and found.best == values[-1] <= 5.0
    assert found.unlimited is not None and found.unlimited > values[-1]
    assert found.held_out is not None and found.held_out["size"] <= 5
    assert ran_from_json(json.loads(json.dumps(ran_to_json(found)))) == found


def test_a_trial_that_the_time_cuts_off_is_checked() -> None:
    task, times = toy(), ticking()
    found = run_peer(task, PEERS["blendsearch"][1](task, 0, 20), 4.0, clock=lambda: next(times))
    assert found.trials == 1 and found.steps < 6
    assert found.known[-1].time_s > 4.0


def test_an_error_names_the_contender() -> None:
    core = min(os.sched_getaffinity(0))
    with pytest.raises(AcetuneError, match=r"'default' on 'nonsense', seed 3, failed:(?s:.*)Key"):
        play("nonsense", None, "optuna-median", 3, 1.0, [core, core])


# -- the file --------------------------------------------------------------------------------------


def test_matches_come_back_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first, second = match(ran((1.0, 0.7)), ran()), match(ran(), ran((2.0, 0.8), (3.0, 0.9)))
    with appending(path) as file:
        append_match(file, KEY, first)
        append_match(file, KEY._replace(seed=1), second)
    path.write_text(path.read_text() + '{"task": "to')  # broken off
    assert read_matches(path) == {KEY: first, KEY._replace(seed=1): second}
    with appending(path) as file:
        append_match(file, KEY, second)
    assert read_matches(path)[KEY] == second
    path.write_text('{"task": "toy"}\n')
    with pytest.raises(AcetuneError, match="line 1, is no live match"):
        read_matches(path)
    assert read_matches(tmp_path / "none.jsonl") == {}


def test_what_is_there_is_not_run_again(
    live: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played: list[tuple[str, int, tuple[int, int]]] = []

    def pretend(
        task: str, data: object, peer: str, seed: int, seconds: float, cores: tuple[int, int]
    ) -> tuple[Ran, Ran]:
        played.append((peer, seed, cores))
        if len(played) == 4:
            raise AcetuneError("'optuna-median' was killed")
        return ran((1.0, 0.75)), ran((2.0, 0.7))

    monkeypatch.setattr(live, "play", pretend)
    monkeypatch.setattr(live, "two_cores", lambda: (0, 1))
    monkeypatch.setitem(live.TASKS, "law", live.TASKS["law"]._replace(make=lambda _: toy()))
    command = ["--task", "law", "--runs", str(tmp_path / "runs.jsonl"), "--seeds", "3"]
    command += ["--peer", "optuna-median", "--peer", "blendsearch", "--out", str(tmp_path)]
    with pytest.raises(AcetuneError, match="was killed"):
        live.main(command)
    live.main(command)
    live.main([*command, "--page"])
    assert len(played) == 3 + 1 + 3  # the fourth failed
    assert played[0] == ("optuna-median", 0, (0, 1)) and played[2][1:] == (1, (1, 0))
    page = (tmp_path / "live.md").read_text()
    assert str(tmp_path) not in page and "FLAML's BlendSearch" in page
    assert "| toy, size <= 5 |     3 |  0.7500 | 0.7000 |   3 |    0 |    0 |  0.01 |" in page
    assert "| toy  |  0.5000 | 0.5000 |         3 of 3 |      3 of 3 |" in page
    with pytest.raises(AcetuneError, match="has none of these matches"):
        live.main([*command, "--page", "--seconds", "7"])


# -- the numbers -----------------------------------------------------------------------------------


def test_when_the_answer_of_the_peer_is_reached() -> None:
    ours = ran((1.0, 0.6), (4.0, 0.8))
    assert reached_s(match(ours, ran((9.0, 0.7)))) == 4.0
    assert reached_s(match(ours, ran((9.0, 0.6)))) == 1.0
    assert reached_s(match(ours, ran((9.0, 0.81)))) == math.inf
    assert reached_s(match(ours, ran())) == 1.0  # anything is as good as nothing
    assert reached_s(match(ran(), ran())) == math.inf
    assert reached_s(match(ran((1.0, 0.8), (4.0, 0.6)), ran((9.0, 0.7)), "min")) == 4.0


def test_a_summary_counts_who_found_nothing_as_worst() -> None:
    pairs = [
        match(ran((5.0, 0.8)), ran()),
        match(ran(), ran((1.0, 0.2))),
        match(ran((2.0, 0.60001)), ran((1.0, 0.6))),
        match(ran(), ran(), code="def"),
    ]
    found = summarise((KEY._replace(seed=seed), pair) for seed, pair in enumerate(pairs))
    assert (found.matches, found.wins, found.ties, found.losses) == (4, 1, 2, 1)
    assert found.median is None and found.peer_median is None  # half of them found nothing
    assert found.never == 2 and found.unlimited == 0.9
    found = summarise((KEY, pair) for pair in pairs[:3])
    assert (found.median, found.peer_median) == (0.60001, 0.2)
    assert found.share == 0.5


def test_a_median_of_an_even_number_is_between_the_two() -> None:
    pairs = [match(ran((5.0, value)), ran((1.0, 0.5)), "min") for value in (0.2, 0.4)]
    found = summarise((KEY, pair) for pair in pairs)
    assert found.median == pytest.approx(0.3) and found.wins == 2
    assert summarise([(KEY, pairs[0])]).share == 0.5
