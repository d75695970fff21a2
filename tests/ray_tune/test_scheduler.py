"""AceScheduler in a plain Tuner, on a real Ray."""

from __future__ import annotations

import json
import logging
import math
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
from ray import tune

import acetune
import acetune.ray
from acetune import Constraint
from acetune.core.errors import BrokenModelError, GoalError, ReportError
from acetune.core.goals import Estimate, Goals, Objective
from acetune.ray import AceScheduler, AceSearch, best_result
from acetune.ray._experiment import Experiment, close_experiment
from acetune.ray._result_format import Attempt, Message, best_in
from acetune.ray._search import ExperimentCurves
from acetune.ray.broadcast import Terms
from acetune.trial.link import Report

from . import trainables
from .helpers import EOD, fit, rows
from .trainables import auc, eod

pytestmark = [
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ray.*"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

XS = [0.4, 0.9, 0.3, 0.6, 0.1, 0.35, 0.2, 0.45]
TRIALS = "SELECT * FROM trials ORDER BY trial, attempt"
REPORTS = "SELECT * FROM reports ORDER BY seq"


def best_of(xs: list[float], steps: int) -> tuple[float, int]:
    """The best feasible x and step, by looking at all of them."""
    pairs = [(x, s) for x in xs for s in range(1, steps + 1) if eod(x, s) <= 0.5]
    return max(pairs, key=lambda pair: auc(*pair))


def test_the_best_feasible_is_found_with_its_model(tmp_path: Path) -> None:
    grid = fit(trainables.train, tmp_path, concurrent=2, x=tune.grid_search(XS))
    best = best_result(grid)
    assert best is not None
    assert (best.config["x"], best.step) == best_of(XS, 5)
    assert best.value == auc(best.config["x"], best.step)
    assert isinstance(best.constraints["eod"], acetune.Estimate)
    assert best.constraints["eod"].value == pytest.approx(eod(best.config["x"], best.step))
    assert best.load() == {"x": best.config["x"], "step": best.step}
    # Ray's own answer breaks the limit
    assert grid.get_best_result().config["x"] == 0.9
    # one model a trial, of the best three trials; the study file knows where
    kept = list((tmp_path / "experiment").glob("*/acetune-model-*"))
    assert 1 <= len(kept) <= 3
    known = rows(tmp_path, "SELECT path, digest FROM checkpoints")
    assert {row["path"] for row in known} == {
        str(path.relative_to(tmp_path / "experiment")) for path in kept
    }
    assert all(row["digest"] for row in known)
    found = acetune.load(tmp_path / "experiment" / "acetune.db").best
    assert found is not None and found.load() == best.load()
    assert best.status == found.status == "unconfirmed"  # nobody looks at fresh data
    assert found.checkpoint is not None
    (found.checkpoint / "model.pkl").write_bytes(b"")  # as after a power cut
    for lost in (found, best):
        with pytest.raises(BrokenModelError, match="is empty"):
            lost.load()


def test_models_stay_in_the_experiment_where_the_study_file_is_elsewhere(tmp_path: Path) -> None:
    study = tmp_path / "elsewhere" / "study.db"
    scheduler = AceScheduler([EOD], "ace", study=study, keep_models=1)
    grid = fit(trainables.train, tmp_path, scheduler=scheduler, x=tune.grid_search(XS[:4]))
    best = best_result(grid)
    assert best is not None and best.load() == {"x": best.config["x"], "step": best.step}
    # pruned as ever, and the file leads nobody out of its folder
    assert len(list((tmp_path / "experiment").glob("*/acetune-model-*"))) == 1
    found = acetune.load(study).best
    assert found is not None and found.checkpoint is not None
    assert found.checkpoint.is_relative_to(study.parent) and found.model_fault() == "is missing"


def test_the_study_file_tells_the_same_and_the_command_reads_it(tmp_path: Path) -> None:
    grid = fit(trainables.train, tmp_path, x=tune.grid_search(XS))
    best = best_result(grid)
    assert best is not None
    study = tmp_path / "experiment" / "acetune.db"
    words = [sys.executable, "-m", "acetune"]
    shown = subprocess.run([*words, "show", study], capture_output=True, text=True, check=True)
    assert f"step {best.step}" in shown.stdout and f"{best.value:.4g}"[:5] in shown.stdout
    stopped = [row for row in rows(tmp_path, TRIALS) if row["state"] == "stopped"]
    assert stopped  # 0.1 comes when it is the worst of all
    names = {row["trial"]: row["name"] for row in rows(tmp_path, "SELECT * FROM names")}
    number = stopped[0]["trial"]
    # by its number here, and by Ray's id and name of it
    for which in (str(number), names[number], f"train_{names[number]}"):
        told = subprocess.run([*words, "explain", study, which], capture_output=True, text=True)
        assert f"trial {number} stopped" in told.stdout and "worst 25%" in told.stdout
    recorded = [*words, "record", "--from", study, "-o", tmp_path / "curves.parquet"]
    subprocess.run(recorded, check=True, capture_output=True)
    assert {result.metrics["trial_id"] for result in grid} == set(names.values())


def test_a_class_trainable(tmp_path: Path) -> None:
    grid = fit(
        trainables.Stepwise,
        tmp_path,
        x=tune.grid_search(XS[:5]),
        scratch=str(tmp_path),
        fails=None,
        reuse_actors=False,
    )
    best = best_result(grid)
    assert best is not None
    assert (best.config["x"], best.step) == best_of(XS[:5], 6)
    assert {row["state"] for row in rows(tmp_path, TRIALS)} == {"finished", "stopped"}
    # costs come from the clock, and waiting for the driver is not among them
    costs = [row["primary_cost_s"] for row in rows(tmp_path, REPORTS)]
    assert all(cost is not None and cost < 0.005 for cost in costs)


def test_one_that_fails_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    options = {"scratch": str(tmp_path), "fails": 0.4, "checkpoint": True}
    grid = fit(trainables.resumable, tmp_path, x=tune.grid_search(XS), failures=1, **options)
    assert grid.num_errors == 0
    attempts = [row for row in rows(tmp_path, TRIALS) if '"x": 0.4,' in row["params"]]
    assert [row["state"] for row in attempts] == ["failed", "finished"]
    assert "out of luck" in attempts[0]["reason"]
    assert attempts[1]["resumed_from"] == 3
    trial = attempts[0]["trial"]
    steps = rows(tmp_path, f"SELECT attempt, step FROM reports WHERE trial = {trial}")
    assert [(row["attempt"], row["step"]) for row in steps] == [
        (1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["function", "class"])
def test_one_that_restarts_at_step_1_is_another_attempt(kind: str, tmp_path: Path) -> None:
    trainable: Any = trainables.resumable if kind == "function" else trainables.Stepwise
    options = {"scratch": str(tmp_path), "fails": 0.4, "checkpoint": False, "declare": True}
    fit(
        trainable,
        tmp_path,
        x=tune.grid_search([0.4, 0.3]),
        failures=1,
        reuse_actors=False,
        **options,
    )
    attempts = [row for row in rows(tmp_path, TRIALS) if '"x": 0.4,' in row["params"]]
    assert [row["state"] for row in attempts] == ["failed", "finished"]
    assert attempts[1]["resumed_from"] == 0
    # the first attempt is no longer ranked with: each step has one report a trial
    ranked = rows(tmp_path, "SELECT max(of) AS most FROM reports WHERE step = 2")
    assert ranked == [{"most": 2}]


def test_a_class_trainable_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """Ray restores it after ``setup``, where the last step was declared already."""
    options = {"scratch": str(tmp_path), "fails": 0.4, "declare": True}
    fit(
        trainables.Stepwise,
        tmp_path,
        x=0.4,
        failures=1,
        reuse_actors=False,
        checkpoint_frequency=1,
        **options,
    )
    attempts = rows(tmp_path, TRIALS)
    assert [(row["state"], row["resumed_from"]) for row in attempts] == [
        ("failed", 0),
        ("finished", 3),
    ]
    steps = [(row["attempt"], row["step"]) for row in rows(tmp_path, REPORTS)]
    assert steps == [(1, 1), (1, 2), (1, 3), (2, 4), (2, 5), (2, 6)]


def test_a_trial_that_fails_again_before_it_reports(tmp_path: Path) -> None:
    def unlucky(config: dict[str, Any]) -> None:
        tries = Path(config["scratch"]) / "tries"
        tries.open("a").write("x")
        count = len(tries.read_text())
        if count == 1:
            trial = acetune.ray.trial(total_steps=2)
            trainables.report(trial, 0.3, 1)
        raise RuntimeError(f"try {count}")

    fit(unlucky, tmp_path, x=1, scratch=str(tmp_path), failures=2)
    attempts = rows(tmp_path, TRIALS)
    assert [row["attempt"] for row in attempts] == [1, 2, 3]
    assert [row["reason"] for row in attempts] == [f"RuntimeError: try {n}" for n in (1, 2, 3)]


def test_configurations_that_json_cannot_say(tmp_path: Path) -> None:
    odd = {"a": np.array([1.0, 2.0]), "x": np.float64(0.25), "f": print, "d": {"t": (1, 2)}}
    grid = fit(trainables.train, tmp_path, x=0.3, odd=odd)
    assert grid.num_errors == 0
    (row,) = rows(tmp_path, TRIALS)
    kept = json.loads(row["params"])["odd"]
    assert kept["x"] == 0.25 and kept["d"] == {"t": [1, 2]}
    assert "array" in kept["a"] and "print" in kept["f"]


def test_a_name_that_comes_back_with_another_configuration(tmp_path: Path) -> None:
    """Restored from before it made a trial, Ray makes another one by the same name."""
    goals = Goals(Objective("auc", "max"), (EOD,))
    desk = Experiment(tmp_path / "study.db", f"local:{tmp_path}", Terms(goals, acetune.ACE(), 1, 3))

    def take(name: str, x: float, token: str) -> None:
        attempt = Attempt(token, 1, 1, None, 0.0, 0)
        check = {"eod": Estimate(0.2)}
        desk.take(name, {"x": x}, Message(attempt, Report(1, x, 1, check)))

    take("t1", 0.5, "one")
    take("t1", 0.7, "two")  # another configuration: another trial
    take("t1", 0.7, "three")  # the same: another attempt of it
    desk.close()
    result = acetune.load(tmp_path / "study.db")
    assert result.best is not None
    assert (result.best.trial, result.best.params, result.best.value) == (2, {"x": 0.7}, 0.7)
    assert list(result.trials.index) == [1, 2]


@pytest.mark.parametrize(("durability", "synchronous"), [("process", 1), ("power", 2)])
def test_what_commits_of_an_experiment_outlast(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, durability: Any, synchronous: int
) -> None:
    found = []
    take = Experiment.take

    def looking(self: Experiment, *given: Any) -> bool:
        found.extend(self.store.rows("PRAGMA synchronous"))
        return take(self, *given)

    monkeypatch.setattr(Experiment, "take", looking)
    scheduler = AceScheduler([EOD], durability=durability)
    assert fit(trainables.train, tmp_path, scheduler=scheduler, x=0.3).num_errors == 0
    assert found and all(row["synchronous"] == synchronous for row in found)


def test_numbers_of_trials(tmp_path: Path) -> None:
    def numbered(config: dict[str, Any]) -> None:
        with acetune.ray.trial(total_steps=1) as trial:
            for _ in trial.steps():
                trial.report(auc=0.5, constraints={"eod": 0.1}, number=trial.number)

    grid = fit(numbered, tmp_path, x=tune.grid_search([1, 2, 3]))
    assert [result.metrics["number"] for result in grid] == [1, 2, 3]
    (tmp_path / "searched").mkdir()
    search = AceSearch({"x": acetune.uniform(0, 1)}, "random", seed=1)
    grid = fit(numbered, tmp_path / "searched", search=search, samples=3)
    assert sorted(result.metrics["number"] for result in grid) == [1, 2, 3]


def test_optunas_search_in_ray(tmp_path: Path) -> None:
    """Its metric is its own where the TuneConfig has none."""
    from ray.tune.search.optuna import OptunaSearch

    search = OptunaSearch({"x": tune.uniform(0, 1)}, metric="ace/best_value", mode="max", seed=1)
    scheduler = AceScheduler([EOD], metric="auc", mode="max")
    grid = fit(
        trainables.train,
        tmp_path,
        search=search,
        samples=6,
        scheduler=scheduler,
        metric=None,
        mode=None,
    )
    assert len(grid) == 6 and grid.num_errors == 0
    told = {trial.value for trial in search._ot_study.trials}
    assert told == {result.metrics["ace/best_value"] for result in grid}


def test_plain_reports_are_ranked_as_unchecked(tmp_path: Path, caplog: Any) -> None:
    def plain(config: dict[str, float]) -> None:
        for step in range(1, 4):
            tune.report({"auc": auc(config["x"], step)})

    with caplog.at_level(logging.WARNING, "acetune.ray"):
        grid = fit(plain, tmp_path, x=tune.grid_search(XS))
    assert best_result(grid) is None
    assert {row["stratum"] for row in rows(tmp_path, REPORTS)} == {"unchecked"}
    assert "stopped" in {row["state"] for row in rows(tmp_path, TRIALS)}
    assert "acetune.ray.trial()" in caplog.text


def early(config: dict[str, Any]) -> None:
    """Ends by itself after three of five steps."""
    trial = acetune.ray.trial(total_steps=5)
    for step in trial.steps():
        trainables.report(trial, config["x"], step)
        if step == 3:
            break
    if config["close"]:
        trial.close()


@pytest.mark.parametrize("close", [True, False])
def test_the_check_that_is_due_at_an_early_end(close: bool, tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "acetune.ray"):
        fit(early, tmp_path, x=0.3, close=close, scheduler=AceScheduler([EOD], "ace-betaT"))
    kinds = [row["kind"] for row in rows(tmp_path, REPORTS)]
    assert kinds == ["step"] * 3 + ["end"] * close
    assert ("perhaps with a check due" in caplog.text) == (not close)


def test_no_notice_where_the_check_at_the_end_cannot_win(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "acetune.ray"):
        fit(
            early,
            tmp_path,
            x=tune.grid_search([0.3, 0.1]),
            close=True,
            scheduler=AceScheduler([EOD], "ace-betaT"),
        )
    assert [row["kind"] for row in rows(tmp_path, REPORTS)] == ["step"] * 3 + ["end"] + ["step"] * 3
    assert caplog.text == ""
    assert [row["state"] for row in rows(tmp_path, TRIALS)] == ["finished"] * 2


def test_rays_own_criteria_end_trials_too(tmp_path: Path, caplog: Any) -> None:
    with caplog.at_level(logging.WARNING, "acetune.ray"):
        fit(
            trainables.train,
            tmp_path,
            x=tune.grid_search([0.3, 0.4]),
            stop={"training_iteration": 3},
        )
    assert caplog.text == ""
    assert [row["state"] for row in rows(tmp_path, TRIALS)] == ["finished"] * 2
    assert len(rows(tmp_path, REPORTS)) == 6  # also the last one, which Ray did not ask us about


class Enough(tune.Stopper):  # type: ignore[misc]
    """Ends the whole experiment after so many reports, as a time budget would."""

    def __init__(self, reports: int) -> None:
        self.left = reports

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self.left -= 1
        return False

    def stop_all(self) -> bool:
        return self.left <= 0


def test_an_experiment_cut_off_leaves_interrupted_trials(tmp_path: Path) -> None:
    grid = fit(
        trainables.slow,
        tmp_path,
        samples=-1,
        stop=Enough(3),
        concurrent=2,
        x=tune.uniform(0, 1),
        pause=0.5,
    )
    best_result(grid)
    states = [row["state"] for row in rows(tmp_path, TRIALS)]
    assert "interrupted" in states and "running" not in states


def test_a_check_that_fails_or_is_no_number_is_never_feasible(tmp_path: Path, caplog: Any) -> None:
    def failing(config: dict[str, float]) -> None:
        def check() -> float:
            if config["x"] == 1:
                raise RuntimeError("no data")
            return float("nan")

        with acetune.ray.trial(total_steps=2) as trial:
            for _ in trial.steps():
                trial.report(auc=config["x"], constraints={"eod": check})

    with caplog.at_level(logging.WARNING, "acetune.ray"):
        grid = fit(failing, tmp_path, x=tune.grid_search([1, 2]))
    assert caplog.text.count("the check of 'eod' failed in trial") == 1
    assert best_result(grid) is None
    errors = {row["error"] for row in rows(tmp_path, "SELECT error FROM checks")}
    raised, nan = sorted(errors)
    assert raised.startswith("RuntimeError: no data (line ") and nan == "constraint 'eod' is nan"


def test_a_check_that_hangs_ends_its_trial(tmp_path: Path) -> None:
    def hanging(config: dict[str, float]) -> None:
        import time

        with acetune.ray.trial(total_steps=1) as trial:
            for _ in trial.steps():
                trial.report(auc=1.0, constraints={"eod": lambda: time.sleep(60)})

    limits = [Constraint("eod", upper=0.5, timeout_s=0.5)]
    grid = fit(hanging, tmp_path, x=1, scheduler=AceScheduler(limits))
    assert grid.num_errors == 1
    (trial,) = rows(tmp_path, TRIALS)
    assert trial["state"] == "failed"
    assert trial["reason"] == "the check of 'eod' outran its timeout of 0.5 s"
    (report,) = rows(tmp_path, REPORTS)
    assert (report["stratum"], report["violation"]) == ("invalid", math.inf)
    (check,) = rows(tmp_path, "SELECT * FROM checks")
    assert check["error"] == trial["reason"]
    assert trial["code"] == "check_timeout"
    assert trial["numbers"] == {"constraint": "eod", "timeout": 0.5}


def test_a_trainable_that_fails_before_it_reports(tmp_path: Path) -> None:
    def broken(config: dict[str, float]) -> None:
        raise ValueError("no such data")

    grid = fit(broken, tmp_path, x=tune.grid_search([1, 2]))
    assert grid.num_errors == 2
    trials = rows(tmp_path, TRIALS)
    assert [row["state"] for row in trials] == ["failed"] * 2
    assert "no such data" in trials[0]["reason"]
    assert [row["code"] for row in trials] == ["raised"] * 2


@pytest.mark.parametrize("searcher", ["blendsearch", "tpe"])
def test_the_searchers_of_the_project(searcher: str, tmp_path: Path) -> None:
    search = AceSearch({"x": acetune.uniform(0, 1)}, searcher, seed=1, points=[{"x": 0.9}])
    grid = fit(trainables.train, tmp_path, search=search, samples=12)
    assert len(grid) == 12
    assert grid[0].config["x"] == 0.9
    told = search._told.values()
    assert len(told) == 12
    assert any(found.violation > 0 for found in told)  # 0.9 never qualifies
    best = best_result(grid)
    assert best is not None
    assert min(t.loss for t in told if t.violation == 0) == -best.value


def test_the_forest_learns_from_every_report(tmp_path: Path) -> None:
    space = {"x": acetune.uniform(0, 1), "y": acetune.uniform(0, 1)}
    search = AceSearch(space, "forest", seed=1, points=[{"x": 0.9}])
    scheduler = AceScheduler([EOD], "ace")  # with it the experiment would be closed
    options: dict[str, Any] = {"scheduler": scheduler, "concurrent": 2}
    grid = fit(trainables.train, tmp_path, search=search, samples=40, **options)
    xs = [result.config["x"] for result in grid]
    assert xs[0] == 0.9
    # the larger, the better, but 0.42 is the most that ever qualifies
    assert sum(0.3 <= x <= 0.45 for x in xs[25:]) > 4  # of 15; at random 2
    watched = ExperimentCurves(search._space, search._trials)
    written = rows(tmp_path, "SELECT * FROM reports WHERE kind = 'step'")
    assert watched.reports == len(written) > 80  # and not one per trial
    curves = list(watched.first(len(written)))
    assert len(curves) == 40 and sum(len(curve.checks) for curve in curves) > 20
    # a search that is restored suggests the same, and so does one that was pickled
    search.save(str(tmp_path / "search"))
    restored = AceSearch(space, "forest", seed=1, points=[{"x": 0.9}])
    restored.restore(str(tmp_path / "search"))
    pickled = cloudpickle.loads(cloudpickle.dumps(search))
    expected = search.suggest("next")
    assert restored.suggest("next") == pickled.suggest("next") == expected
    close_experiment(grid.experiment_path)
    assert watched.reports == 0 and list(watched.first(9)) == []
    assert 0 <= search.suggest("after the experiment")["x"] <= 1


class Interrupting(tune.Callback):  # type: ignore[misc]
    """Ends the driver once, when so many trials have ended. It is restored with the experiment."""

    def __init__(self, trials: int, done: Path) -> None:
        self.trials, self.done = trials, done

    def on_step_end(self, iteration: int, trials: Any, **_: Any) -> None:
        ended = sum(trial.is_finished() for trial in trials)
        if ended >= self.trials and not self.done.exists():
            self.done.touch()
            raise RuntimeError("the driver is ended")


def test_the_forest_goes_on_learning_in_a_restored_experiment(tmp_path: Path) -> None:
    search = AceSearch({"x": acetune.uniform(0, 1)}, "forest", seed=1)
    interrupting = [Interrupting(16, tmp_path / "done")]
    with pytest.raises(RuntimeError, match="the driver is ended"):
        fit(trainables.train, tmp_path, search=search, samples=24, callbacks=interrupting)
    tuner = tune.Tuner.restore(
        str(tmp_path / "experiment"), trainables.train, resume_unfinished=True
    )
    grid = tuner.fit()
    assert len(grid) == 24
    found = rows(tmp_path, "SELECT DISTINCT trial FROM reports")
    assert len(found) >= 24  # Ray forgets trials that ended after its last snapshot
    xs = [result.config["x"] for result in grid]
    assert len(set(xs)) == 24
    best = best_result(grid)
    assert best is not None and best.config["x"] > 0.3


def test_a_search_of_ray_sees_the_best_checkpoint(tmp_path: Path) -> None:
    from ray.tune.search import Searcher

    class Watching(Searcher):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(metric="ace/best_value", mode="max")
            self.seen: dict[str, dict[str, Any]] = {}
            self.xs = iter(XS)

        def set_search_properties(self, *_: Any, **__: Any) -> bool:
            return True

        def suggest(self, trial_id: str) -> dict[str, Any]:
            return {"x": next(self.xs)}

        def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
            self.seen[trial_id] = result

    search = Watching()
    fit(trainables.train, tmp_path, search=search, samples=len(XS))
    assert len(search.seen) == len(XS)
    for result in search.seen.values():
        best = best_in(result)
        assert best is not None
        assert result["ace/best_value"] == -best.loss
        assert result["ace/best_value"] >= result["auc"] or best.feasible
        assert result["ace/violation"] == 0 or not best.feasible
    assert any(result["ace/violation"] > 0 for result in search.seen.values())


def test_one_scheduler_for_two_experiments_in_a_thread(tmp_path: Path) -> None:
    scheduler = AceScheduler([EOD])

    def run(folder: Path) -> None:
        fit(trainables.train, folder, x=tune.grid_search([0.3, 0.4]), scheduler=scheduler)

    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        thread = threading.Thread(target=run, args=(tmp_path / name,))
        thread.start()
        thread.join()
        assert len(rows(tmp_path / name, TRIALS)) == 2
    close_experiment(str(tmp_path / "b" / "experiment"))
    assert rows(tmp_path / "b", "SELECT ended FROM sessions") == [{"ended": "experiment_ended"}]


def test_bad_input_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(GoalError, match="constraints must be a list"):
        AceScheduler(EOD)  # type: ignore[arg-type]
    with pytest.raises(GoalError, match=r"engine='ray'"):
        AceScheduler([EOD], "asha+after")
    with pytest.raises(GoalError, match="confirm_top must be a whole number >= 1, got 0"):
        AceScheduler([EOD], confirm_top=0)
    with pytest.raises(GoalError, match="policy must be a policy or its name, got 7"):
        AceScheduler([EOD], 7)  # type: ignore[arg-type]
    with pytest.raises(
        TypeError, match=r"AceScheduler.*'objective'; did you mean metric=\"auc\"\?"
    ):
        AceScheduler([EOD], objective="auc")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'polcy'; did you mean 'policy'\?"):
        AceScheduler([EOD], polcy="ace")  # type: ignore[call-arg]
    with pytest.raises(GoalError, match="used twice"):
        AceScheduler([EOD, EOD])
    with pytest.raises(GoalError, match=r"TuneConfig\(metric=\.\.\., mode=\.\.\.\)"):
        AceScheduler([EOD]).set_search_properties("auc", None)
    assert not AceScheduler([EOD], metric="auc", mode="max").set_search_properties("auc", "max")
    with pytest.raises(ReportError, match="outside a function that a Tuner runs"):
        acetune.ray.trial(total_steps=3)


def test_it_can_be_pickled_and_says_what_it_is() -> None:
    scheduler = pickle.loads(pickle.dumps(AceScheduler([EOD], "ace:truncation=0.5")))
    assert "eod <= 0.5" in scheduler.debug_string()
    assert "truncation=0.5" in scheduler.debug_string()


def test_several_constraints_one_by_one(tmp_path: Path) -> None:
    """The order travels in the broadcast; Ray's results have NaN for what was left out."""
    limits = [Constraint("dear", upper=0.5), Constraint("cheap", upper=0.32)]
    policy = acetune.ACE2(truncation=0.0, invalid_truncation=0.0, spacing=0.0, defer=False)
    xs = [0.9, 0.8, 0.2, 0.7, 0.3]
    grid = fit(
        trainables.two_limits,
        tmp_path,
        scheduler=AceScheduler(limits, policy),
        x=tune.grid_search(xs),
    )
    best = best_result(grid)
    assert best is not None and best.config["x"] == 0.3
    assert best.constraints == {"dear": Estimate(0.1), "cheap": Estimate(0.3)}
    found = rows(
        tmp_path,
        'SELECT trial, group_concat(DISTINCT "constraint") AS names FROM reports '
        "JOIN checks USING (seq) GROUP BY trial ORDER BY trial",
    )
    names = [set(row["names"].split(",")) for row in found]
    both, cheap = {"dear", "cheap"}, {"cheap"}
    assert names == [both, cheap, both, cheap, both]  # the first before anything was timed
    by_x = {result.config["x"]: result.metrics for result in grid}
    assert math.isnan(by_x[0.7]["dear"]) and by_x[0.7]["cheap"] == 0.7


def test_steps_counted_in_tokens_are_exact_and_one_beyond_fails_its_trial_alone(
    tmp_path: Path,
) -> None:
    steps = [2**31, 2**32 + 1, 2**53 + 1, 2**62]
    cases = [{"x": 0.2, "steps": [2**31, 2**63]}, {"x": 0.4, "steps": steps}]
    scheduler = AceScheduler([EOD], acetune.ACE(truncation=0, interval=1, gate=False))
    grid = fit(trainables.counts_tokens, tmp_path, cases, scheduler=scheduler)
    assert "step must be at most 2**62, got 9223372036854775808" in str(grid.errors[0])
    assert [row["state"] for row in rows(tmp_path, TRIALS)] == ["failed", "finished"]
    found = rows(tmp_path, REPORTS)
    assert [row["step"] for row in found if row["trial"] == 2] == steps
    best = best_result(grid)
    assert best is not None and best.step in steps
