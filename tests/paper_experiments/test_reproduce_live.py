"""``python -m paper fairness --live``: real training on a small file of the UCI file's form."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import MethodType
from typing import cast

import numpy as np
import pytest

import acetune as library
from acetune.cli.demo_credit import CreditModel, CreditScores, CreditTask
from acetune.core.errors import (
    AcetuneError,
    GoalError,
    StudyLockedError,
)
from acetune.core.goals import Constraint, Estimate
from acetune.core.reason import INTERRUPTED
from acetune.replay.table_file import write_table
from acetune.replay.training import Task, train_curve
from acetune.searchers.space import Space
from acetune.study.store import Store
from cli.inside import Command
from paper import live
from paper.live_plan import LiveCase, LivePlan
from paper.live_replay import REPLAYED_SEEDS
from paper.live_runs import read_run
from paper.live_studies import Studies
from paper.published import START
from paper.tasks.credit import paper_credit
from paper_experiments.test_live_speed import made_table

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.45
PLAN = LivePlan(
    limits=(LIMIT,),
    searchers=("random",),
    policies=("none+after", "ace"),
    seeds=(20,),
    workers=1,
)
OPTIONS = ["--limits", LIMIT, "--searchers", "random", "--policies", "none+after,ace"]
OPTIONS += ["--seeds", "20", "--workers", 1, "--pictures", "html", "--processes", 1]
BUDGETS_S = (4.0, 10.0, 30.0)  # the first in which a worker of a busy machine gets to train


def write_credit(path: Path, clients: int = 1500) -> None:
    """A file of the UCI file's form."""
    rng = np.random.default_rng(0)
    names = ["ID", "LIMIT_BAL", "SEX", "EDUCATION", "MARRIAGE", "AGE"]
    names += ["PAY_0", "PAY_2", "PAY_3", "PAY_4", "PAY_5", "PAY_6", "BILL_AMT1"]
    risk = rng.normal(size=clients)
    default = (risk + rng.normal(size=clients) > 1).astype(int)
    sex, education = rng.integers(1, 3, clients), rng.integers(0, 4, clients)
    columns = [np.arange(clients), np.full(clients, 1000), sex, education]
    columns += [rng.integers(0, 3, clients), rng.integers(20, 70, clients)]
    columns += [np.clip(np.rint(risk + rng.normal(size=clients)), -2, 3) for _ in range(6)]
    columns += [rng.integers(0, 900, clients), default]
    rows = [",".join(f"{value:g}" for value in row) for row in zip(*columns, strict=True)]
    header = ",".join([*names, "default.payment.next.month"])
    path.write_text("\n".join([header, *rows]) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data file, and a table recorded in the space that goes with it."""
    made = tmp_path_factory.mktemp("live")
    write_credit(made / "credit.csv")
    space = Space(paper_credit(made / "credit.csv").space).describe()
    write_table(made / "made.parquet", made_table(space))
    (made / "budget").write_text(str(BUDGETS_S[0]))
    return made


def budget_of(folder: Path) -> float:
    return float((folder / "budget").read_text())


def arguments(folder: Path, **changed: object) -> list[str]:
    """The command; an option that is None is left out."""
    given: dict[str, object] = dict(zip(OPTIONS[::2], OPTIONS[1::2], strict=True))
    given |= {"--data": folder / "credit.csv", "--table": folder / "made.parquet"}
    given |= {"--studies": folder / "studies", "-o": folder / "out"}
    given |= {"--budget-s": budget_of(folder)}
    for name, value in changed.items():
        given["-o" if name == "o" else f"--{name.replace('_', '-')}"] = value
    options = [str(part) for item in given.items() if item[1] is not None for part in item]
    return ["fairness", "--live", *options]


def start(options: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "paper", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


@pytest.fixture(scope="module")
def finished(folder: Path) -> Path:
    """The whole experiment."""
    for budget_s in BUDGETS_S:
        (folder / "budget").write_text(str(budget_s))
        shutil.rmtree(folder / "studies", ignore_errors=True)
        done = start([*arguments(folder, table=None), "--no-replay"])
        printed, said = done.communicate(timeout=300)
        assert done.returncode == 0, said
        assert printed.strip() == str(folder / "out" / "fairness-live.md")
        cases = PLAN.cases()
        assert [line.split(": ")[0] for line in said.splitlines()] == [str(c) for c in cases]
        assert not (folder / "studies" / "under-way").exists()
        if all(has_any(Studies(folder / "studies").path(case), "checks") for case in cases):
            return folder
    raise AssertionError(f"nothing was trained in {budget_s} s")


def has_any(path: Path, what: str) -> bool:
    with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db:
        return bool(db.execute(f"SELECT count(*) FROM {what}").fetchone()[0])


def results(folder: Path) -> dict[LiveCase, library.StudyResult]:
    studies = Studies(folder / "studies")
    return {case: library.load(studies.path(case)) for case in PLAN.cases()}


# -- what was run ----------------------------------------------------------------------------------


def test_every_study_has_the_same_budget_in_one_session(finished: Path) -> None:
    for case, result in results(finished).items():
        with sqlite3.connect(result.study) as db:
            sessions = db.execute("SELECT search_s, ended FROM sessions").fetchall()
        assert len(sessions) == 1
        assert sessions[0][0] >= budget_of(finished) and sessions[0][1] != INTERRUPTED.code
        settings = json.loads(result.info["settings"])
        assert (settings["seed"], settings["searcher"]) == (case.seed, "random")
        assert (settings["workers"], settings["time_budget_s"]) == (1, budget_of(finished))
        assert [c.describe() for c in result.goals.constraints] == [f"eod <= {LIMIT}"]
        assert result.trials["total_steps"].max() <= 3000
    policies = {case.policy: json.loads(r.info["policy"]) for case, r in results(finished).items()}
    assert policies["none+after"]["constraints"] == "after"
    assert policies["ace"]["name"] == "ACE"


def test_policies_meet_the_same_configurations_with_random_search(finished: Path) -> None:
    params = {}
    for case, result in results(finished).items():
        names = [name for name in result.trials if name.startswith("param.")]
        params[case.policy] = result.trials[names]
    shorter = min(len(found) for found in params.values())
    assert shorter >= 1
    first, second = (params[policy][:shorter] for policy in PLAN.policies)
    assert first.equals(second)


def test_the_page_has_the_numbers_of_the_study_files(finished: Path) -> None:
    text = (finished / "out" / "fairness-live.md").read_text()
    runs = {
        (run["policy"], run["seed"]): run
        for run in json.loads((finished / "out" / "live-runs.json").read_text())["runs"]
    }
    assert len(runs) == 2
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    for policy in PLAN.policies:
        row = next(row for row in rows if row[0] == f"| {policy}")
        found = [result for case, result in results(finished).items() if case.policy == policy]
        best = [result.best for result in found if result.best is not None]
        assert row[2] == ("" if best else "1")
        if best:
            assert row[1].split(" ± ")[0] == f"{100 * fmean(b.value for b in best):.2f}"
            assert row[3] == f"{fmean(b.constraints['eod'].value for b in best):.3f}"
        assert row[4].split(" ")[0] == f"{fmean(sum(r.counts.values()) for r in found):,.0f}"
        assert row[5] == f"{fmean(r.ledger.checks for r in found):,.0f}"
        assert row[6] == f"{100 * fmean(r.ledger.check_share for r in found):.1f}"
    for case, result in results(finished).items():
        run = runs[case.policy, case.seed]
        if result.best is None:
            assert run["best"] is run["eod"] is run["time_to_best_s"] is None
        else:
            assert run["best"] == run["incumbents"][-1]["value"] == result.best.value
            assert run["incumbents"][-1]["config"] == result.best.trial
            assert run["eod"] == result.best.constraints["eod"].value <= LIMIT
            # checked after the run: found after it
            assert run["time_to_best_s"] > budget_of(finished) or case.policy == "ace"
        assert run["states"] == result.counts and run["steps"] == result.ledger.reports
        values = [incumbent["value"] for incumbent in run["incumbents"]]
        assert values == sorted(set(values))
        assert 0 < run["busy"] <= 1


def test_the_page_says_how_it_came_about_and_names_no_folder(finished: Path) -> None:
    text = (finished / "out" / "fairness-live.md").read_text()
    kept = (finished / "out" / "live-runs.json").read_text()
    assert "seeds 20." in text and f"{budget_of(finished):g} s of wall-clock time" in text
    assert "fairness --live" in text and "--data credit.csv" in text and "lightgbm 4" in text
    for told in (text, kept):
        assert str(finished) not in told
        assert os.uname().nodename not in told or len(os.uname().nodename) < 4
    drawn = (finished / "out" / "fairness-live.html").read_text()
    assert "Wall-clock time (s)" in drawn and "Simulated time" not in drawn


def test_the_replay_beside_it_has_the_scaled_budget_and_costs(
    finished: Path, command: Command, tmp_path: Path
) -> None:
    command(*arguments(finished, data=None, o=tmp_path))
    found = json.loads((tmp_path / "live-runs.json").read_text())
    replay, runs = found["replay"], {run["policy"]: run for run in found["runs"]}
    steps = sum(run["steps"] for run in runs.values())
    training = sum(run["steps"] * run["step_s"] for run in runs.values())
    assert replay["step_s"] == pytest.approx(training / steps)
    slower = replay["live_seconds_a_table_second"]
    in_table_s = replay["check_s"] / slower
    assert replay["cost_ratio_in_replay"] == pytest.approx(in_table_s / replay["table_step_s"])
    assert [row["policy"] for row in replay["rows"]] == ["none+after", "ace"]
    text = (tmp_path / "fairness-live.md").read_text()
    lines = [line for line in text.split("## EOD")[1].splitlines() if line.startswith("| ")]
    for row in replay["rows"]:
        assert row["seeds"] == list(range(20, 20 + REPLAYED_SEEDS))
        # waiting is no work: the budget is what the workers of this policy were busy for
        busy = runs[row["policy"]]["busy"]
        assert row["budget_s"] == pytest.approx(budget_of(finished) * busy / slower)
        line = next(line for line in lines if line.startswith(f"| {row['policy']} "))
        assert line.split(" | ")[10] == f"{row['budget_s']:.1f}"
    (by_study,) = (line for line in text.splitlines() if line.startswith("| all |"))
    assert by_study == f"| all | {slower:.2f} | {slower:.2f} |"
    low, high = replay["live_seconds_a_table_second_95"]
    assert low <= slower <= high and f"95 % interval {low:.2f} to {high:.2f}" in text


def test_late_checks_are_no_work_of_the_workers(finished: Path) -> None:
    for case in PLAN.cases():
        path = Studies(finished / "studies").path(case)
        run = read_run(path, case)
        with contextlib.closing(sqlite3.connect(path)) as db:
            ((snapshots_s,),) = db.execute("SELECT total(snapshot_cost_s) FROM reports")
            ((checks_s,),) = db.execute("SELECT total(cost_s) FROM checks")
        late_s = 0.0 if case.policy == "ace" else checks_s  # all checks of the other are late ones
        worked_s = run.startup_s + run.run.primary_cost_s + snapshots_s + checks_s - late_s
        assert checks_s > 0
        assert run.busy * run.worked_s == pytest.approx(worked_s, rel=1e-9)


def test_the_page_is_made_again_without_data(
    finished: Path, command: Command, tmp_path: Path
) -> None:
    before = (finished / "out" / "fairness-live.md").read_text()
    again = arguments(finished, data=None, table=None, o=tmp_path)
    command(*again, "--no-replay")
    assert (tmp_path / "fairness-live.md").read_text() == before  # the training's command too
    assert "replay" not in before.split("Trained by")[0].lower()
    command(*arguments(finished, data=None, table=None, policies="ace", o=tmp_path), "--no-replay")
    text = (tmp_path / "fairness-live.md").read_text()
    assert "none+after" not in text.split("Trained by")[0].split("## ")[1]


def test_checkpoints_are_scores_alone_and_train_and_check_alike(folder: Path) -> None:
    whole = paper_credit(folder / "credit.csv")
    kept: list[object] = []
    curves = []
    for credit in (whole, replace(whole, keeps_trees=False)):

        def check(model: CreditScores, credit: CreditTask = credit) -> Estimate:
            kept.append(model)
            return credit.check(model)

        limit = Constraint("eod", upper=LIMIT, check=check)
        task = Task("credit", credit.train, credit.space, "auc", "max", (limit,), None, {})
        curves.append(train_curve(task, {**START, "n_estimators": 4}))
    with_trees, without = curves
    assert [type(model) for model in kept] == [CreditModel] * 4 + [CreditScores] * 4
    for name in ("auc", "eod"):
        assert without.metrics[name] == pytest.approx(with_trees.metrics[name])
    assert len(pickle.dumps(kept[-1])) < 8 * len(whole.select_rows.y) + 1000


# -- what was cut off ------------------------------------------------------------------------------


def test_ctrl_c_ends_it_and_leaves_the_study_under_way(folder: Path, tmp_path: Path) -> None:
    running = start(arguments(folder, budget_s=100, studies=tmp_path / "s", o=tmp_path / "out"))
    studies, first = Studies(tmp_path / "s"), PLAN.cases()[0]
    path = tmp_path / "s" / "under-way" / studies.path(first).name
    deadline = time.monotonic() + 60
    while not (path.exists() and has_any(path, "reports")):
        assert time.monotonic() < deadline and running.poll() is None
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    printed, said = running.communicate(timeout=60)
    assert running.returncode == 130 and not printed
    assert "the same command goes on" in said and "Traceback" not in said
    assert path.exists() and not studies.whole(first)
    assert not (tmp_path / "out").exists()


def test_it_goes_on_with_what_is_missing_and_begins_a_half_run_study_anew(
    finished: Path, tmp_path: Path, command: Command
) -> None:
    shutil.copytree(finished / "studies", tmp_path / "s")
    studies, case = Studies(tmp_path / "s"), PLAN.cases()[1]
    half = studies.begin(case)
    half.parent.mkdir()
    studies.path(case).rename(half)
    with contextlib.closing(sqlite3.connect(half)) as db:
        # what must not be gone on with: the trials of half a budget, one of them unlike the seed's
        db.execute("UPDATE sessions SET ended = NULL, search_s = 1.5")
        db.execute("UPDATE trials SET params = json_set(params, '$.num_leaves', 5)")
        db.commit()
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "s").glob("*.db")}
    assert len(kept) == 1
    going_on = arguments(finished, table=None, studies=tmp_path / "s", o=tmp_path / "out")
    _, said = command(*going_on, "--no-replay")
    assert [line.split(": ")[0] for line in said.splitlines()] == [str(case)]
    assert all(path.stat().st_mtime_ns == time_ns for path, time_ns in kept.items())
    again, before = (
        library.load(Studies(f).path(case)) for f in (tmp_path / "s", finished / "studies")
    )
    assert again.trials["param.num_leaves"].iloc[0] == before.trials["param.num_leaves"].iloc[0]
    with contextlib.closing(sqlite3.connect(again.study)) as db:
        ((searched_s,),) = db.execute("SELECT search_s FROM sessions")
    assert searched_s >= budget_of(finished)
    assert (tmp_path / "out" / "fairness-live.md").exists() and not half.parent.exists()


# -- what is refused -------------------------------------------------------------------------------


def test_other_conditions_are_refused(finished: Path, command: Command, tmp_path: Path) -> None:
    other = budget_of(finished) + 1
    assert f"--budget-s {budget_of(finished)}, and not {other}" in command.refuses(
        *arguments(finished, budget_s=other)
    )
    more = {"seeds": "20,22"}
    said = command.refuses(*arguments(finished, **more, workers=2))
    assert "workers 1, and now it is 2" in said
    write_credit(tmp_path / "other.csv", clients=1501)
    said = command.refuses(*arguments(finished, **more, data=tmp_path / "other.csv"))
    assert "data_sha256" in said
    said = command.refuses(*arguments(finished, **more, data=None))
    assert "2 of 4 studies" in said and "seed 22" in said and "--data FILE" in said


def test_a_table_of_another_space_is_refused_before_training(
    folder: Path, command: Command, tmp_path: Path
) -> None:
    space = Space(paper_credit(folder / "credit.csv").space).describe()
    space["num_leaves"] = {"integer": [4, 77], "log": True}
    write_table(tmp_path / "other.parquet", made_table(space, configs=5))
    other = {"table": tmp_path / "other.parquet", "studies": tmp_path / "s"}
    said = command.refuses(*arguments(folder, **other))
    assert "another search space" in said and "--no-replay" in said
    assert not (tmp_path / "s").exists()


def test_a_table_of_another_space_is_refused_when_the_page_is_made_again(
    finished: Path, command: Command, tmp_path: Path
) -> None:
    space = Space(paper_credit(finished / "credit.csv").space).describe()
    space["num_leaves"] = {"integer": [4, 77], "log": True}
    write_table(tmp_path / "other.parquet", made_table(space, configs=5))
    again = arguments(finished, data=None, table=tmp_path / "other.parquet", o=tmp_path / "out")
    assert "another search space" in command.refuses(*again)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--policies", "none,acme"], "unknown policy 'acme'"),
        (["--policies", "ace,ace"], "each once"),
        (["--searchers", "random,guess"], "unknown searcher 'guess'"),
        (["--limits", "0.25,tight"], "'0.25,tight'"),
        (["--limits", "25"], "got 25.0; the paper's are 0.25 and 0.325"),
        (["--seeds", "20;21"], "as in 20,21,22"),
        (["--budget-s", "0"], "got 0.0"),
        (["--workers", "0"], "workers"),
        (["--engine", "slurm"], "'slurm'"),
        (["--samples", "3"], "--samples 3"),
        (["ablations"], "alone, got fairness ablations"),
        (["--data", "nowhere.csv"], "nowhere.csv"),
        ([], "60 of 60 studies"),  # no data
    ],
)
def test_bad_input_is_named(command: Command, tmp_path: Path, given: list[str], said: str) -> None:
    options = ["--no-replay", "--studies", tmp_path / "s", "-o", tmp_path]
    assert said in command.refuses("fairness", "--live", *options, *given)
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("option", ["--data x.csv", "--policies ace", "--workers 2", "--no-replay"])
def test_options_of_live_runs_need_live(command: Command, option: str) -> None:
    said = command.refuses("fairness", *option.split())
    assert option.split()[0] in said and "--live" in said


def test_a_list_of_seeds_needs_live(command: Command) -> None:
    assert "'20,21'" in command.refuses("fairness", "--seeds", "20,21")


# -- the plan and the folder -----------------------------------------------------------------------


def test_seeds_are_outermost_and_policies_take_turns_at_being_first() -> None:
    cases = LivePlan().cases()
    assert len(cases) == len(set(cases)) == 2 * 2 * 5 * 3
    assert [case.seed for case in cases] == sorted(case.seed for case in cases)
    firsts = [case.policy for case in cases[::5]]  # of each limit, searcher and seed
    assert {firsts.count(policy) for policy in LivePlan().policies} == {2, 3}


def test_a_running_study_is_left_alone_and_a_broken_one_begun_anew(
    finished: Path, tmp_path: Path
) -> None:
    studies, case = Studies(tmp_path / "s"), PLAN.cases()[0]
    path = studies.begin(case)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half a file")
    (tmp_path / "s" / "under-way" / f"{path.name}.files").mkdir()
    assert studies.begin(case) == path
    assert not any(path.parent.iterdir())
    path.write_bytes(Studies(finished / "studies").path(case).read_bytes())
    store = Store.open(path)
    try:
        with pytest.raises(StudyLockedError):
            studies.begin(case)
    finally:
        store.close()
    assert not studies.whole(case) and path.exists()


def test_what_an_older_version_left_under_way_is_deleted_whole(tmp_path: Path) -> None:
    studies, case = Studies(tmp_path / "s"), PLAN.cases()[0]
    path = studies.begin(case)
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / "tests" / "study" / "data" / "format-1.db", path)
    assert studies.begin(case) == path
    assert not any(path.parent.iterdir())  # nor the copy that is made of an older format


@pytest.mark.parametrize("what", ["interrupted", "killed", "late checks"])
def test_a_study_that_was_cut_off_is_not_whole(finished: Path, tmp_path: Path, what: str) -> None:
    """The last one: Ctrl-C after the budget was spent, while models waited for their checks."""
    case = next(case for case in PLAN.cases() if case.policy == "none+after")
    studies = Studies(tmp_path)
    path = studies.begin(case)
    path.parent.mkdir()
    path.write_bytes(Studies(finished / "studies").path(case).read_bytes())
    with sqlite3.connect(path) as db:
        if what == "late checks":
            db.execute("DELETE FROM reports WHERE kind = 'after'")
            db.execute("DELETE FROM checks")
        else:
            ended = INTERRUPTED.code if what == "interrupted" else None
            db.execute("UPDATE sessions SET ended = ?", (ended,))
    assert not studies.keep(case)
    assert path.exists() and not studies.whole(case)


def test_a_folder_without_conditions_is_named(tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match=r"no conditions\.json"):
        Studies(tmp_path).conditions()
    (tmp_path / "conditions.json").write_text('{"command": "acetune"}')
    with pytest.raises(AcetuneError, match="cannot read"):
        Studies(tmp_path).conditions()


def test_bad_plans_are_errors_in_python_too() -> None:
    with pytest.raises(GoalError, match="seed"):
        LivePlan(seeds=(-1,))
    with pytest.raises(GoalError, match="limits"):
        LivePlan(limits=())


# -- Ray, and BlendSearch --------------------------------------------------------------------------


def test_engine_and_the_papers_start_reach_the_study(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Studies with BlendSearch and on Ray are tested where they are at home; they take long."""
    given: dict[str, object] = {}

    class ReachedError(Exception):
        pass

    def reached(train: MethodType, *_: object, **options: object) -> None:
        given.update(options, task=train.__self__)
        raise ReachedError

    monkeypatch.setattr(live, "tune", reached)
    plan = LivePlan(searchers=("blendsearch",), engine="ray", workers=3, budget_s=7)
    with pytest.raises(ReachedError):
        live.run_pending(plan, paper_credit(folder / "credit.csv"), Studies(tmp_path))
    assert (given["engine"], given["workers"], given["time_budget_s"]) == ("ray", 3, 7)
    assert (given["searcher"], given["points"]) == ("blendsearch", [START])
    assert not cast(CreditTask, given["task"]).keeps_trees
    assert (given["policy"], given["seed"], given["threads"]) == ("none", 20, 1)
