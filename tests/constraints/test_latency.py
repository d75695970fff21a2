"""Latency: what is timed, what comes of it, and when it is measured again."""

from __future__ import annotations

import fcntl
import gc
import math
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cloudpickle
import numpy as np
import pytest

import acetune
from acetune import Constraint, Estimate, Trial
from acetune.constraints._reserved_device import MeasurementError, helper_on
from acetune.constraints.latency import LatencyCheck, LatencyProfile, measure_latency, quantile
from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.goals import FailedCheck, Goals, Objective
from acetune.replay.parallel import run_jobs
from acetune.testing import check_constraint
from acetune.trial.checks import evaluate
from acetune.trial.device_locks import lock_folder
from acetune.trial.exclusive import DeviceUse, alone
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.hardware import THREAD_VARIABLES as THREADS
from acetune.trial.link import Link, Plan, Reply, Report

CORES = sorted(os.sched_getaffinity(0))


class Made:
    """A clock and calls that take made times, in seconds."""

    def __init__(self, times: Any) -> None:
        self.times, self.now, self.calls = list(times), 0.0, 0

    def clock(self) -> float:
        return self.now

    def call(self) -> None:
        self.now += float(self.times[self.calls % len(self.times)])
        self.calls += 1


# -- times ---------------------------------------------------------------------------------------


def test_percentiles_are_those_of_the_calls_after_the_warm_up() -> None:
    made = Made([9.0, 8.0, *np.arange(1, 101) / 1000])
    profile = measure_latency(made.call, warmup=2, repeats=100, clock=made.clock)
    found = [profile.p50.value, profile.p95.value, profile.p99.value]
    assert found == pytest.approx([50.0, 95.0, 99.0])  # milliseconds
    assert made.calls == 102 and profile.repeats == 100
    assert f"{os.cpu_count()} cores" in profile.hardware
    assert "p95 95 ± " in str(profile) and profile.hardware in str(profile)


def test_profiles_can_be_compared_and_kept_in_sets() -> None:
    one, other = (LatencyProfile(np.array([1.0, 2.0]), "a machine") for _ in range(2))
    assert one == one and one != other
    assert len({one, other, one}) == 2


def test_the_garbage_collector_rests_while_calls_are_timed() -> None:
    seen = []
    measure_latency(lambda: seen.append(gc.isenabled()), warmup=1, repeats=3)
    assert seen == [True, False, False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        measure_latency(lambda: None, warmup=0, repeats=1)
        assert not gc.isenabled()  # as it was
    finally:
        gc.enable()
    with pytest.raises(ZeroDivisionError):
        measure_latency(lambda: 1 / 0, warmup=0, repeats=1)
    assert gc.isenabled()


def test_a_call_on_a_gpu_that_is_used_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    # what PyTorch does on a GPU, which the machine that tests need not have
    done: list[str] = []
    cuda = SimpleNamespace(
        is_initialized=lambda: "call" in done,
        synchronize=lambda: done.append("wait"),
        get_device_name=lambda: "a GPU",
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))

    def clock() -> float:
        done.append("clock")
        return 0.0

    profile = measure_latency(lambda: done.append("call"), warmup=1, repeats=2, clock=clock)
    assert done == ["call", *["wait", "clock", "call", "wait", "clock"] * 2]
    assert profile.hardware.endswith("a GPU")


# -- standard errors -----------------------------------------------------------------------------


@pytest.mark.parametrize(("percentile", "repeats"), [(50, 100), (95, 200), (99, 1000)])
def test_two_standard_errors_cover_the_truth(percentile: int, repeats: int) -> None:
    """Skewed times, as calls have them. 95 % is the aim; the tail of a small sample knows less."""
    rng = np.random.default_rng(0)
    truth = float(np.quantile(rng.lognormal(sigma=0.5, size=2_000_000), percentile / 100))
    covered = 0
    for _ in range(400):
        times = np.sort(rng.lognormal(sigma=0.5, size=repeats))
        value, stderr = quantile(times, percentile / 100)
        covered += abs(value - truth) <= 1.96 * stderr
    assert 0.9 <= covered / 400 <= 0.985


def test_the_standard_error_is_that_of_the_bootstrap() -> None:
    rng = np.random.default_rng(1)
    times = np.sort(rng.exponential(size=60))
    for share in (0.5, 0.9, 0.95):
        rank = math.ceil(60 * share) - 1
        drawn = np.sort(rng.choice(times, size=(40_000, 60)), axis=1)[:, rank]
        value, stderr = quantile(times, share)
        assert value == times[rank]
        assert stderr == pytest.approx(drawn.std(), rel=0.03)


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
@pytest.mark.parametrize("n", [1, 2, 7, 20_000])
def test_any_sample_has_any_quantile(n: int, share: float) -> None:
    value, stderr = quantile(np.arange(float(n)), share)
    assert value == max(0, math.ceil(n * share) - 1)
    assert 0.0 <= stderr < math.sqrt(n) + 1


def test_equal_times_have_no_error() -> None:
    assert quantile(np.full(200, 3.0), 0.95) == Estimate(3.0, 0.0)


# -- the check -----------------------------------------------------------------------------------


def test_a_share_is_not_taken_for_a_percentile() -> None:
    with pytest.raises(GoalError, match=r"got 0\.95; for 95% give 95"):
        LatencyCheck(len, percentile=0.95)


def test_the_check_is_the_percentile_that_was_asked_for() -> None:
    made = Made(np.arange(1, 51) / 1000)
    check = LatencyCheck(
        lambda model: model.call(), percentile=90, warmup=0, repeats=50, clock=made.clock
    )
    value, stderr = check(made)
    assert value == pytest.approx(45.0) and stderr > 0
    assert Constraint("ms", upper=45.1, check=check).holds(Estimate(value))
    assert check.profile(made).p50.value == pytest.approx(25.0)


def test_it_keeps_to_the_protocol() -> None:
    check_constraint(LatencyCheck(sum, warmup=0, repeats=100), [1, 2, 3])


def test_a_check_travels_to_workers() -> None:
    check = LatencyCheck(lambda model: sum(model), percentile=50, repeats=30, device="cpu")
    there = pickle.loads(cloudpickle.dumps(check))
    assert there([1, 2]).value > 0
    assert repr(there).endswith("percentile=50, warmup=10, repeats=30, device='cpu')")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"call": 3}, "call must be a function of the model, got 3"),
        ({"percentile": 100}, "percentile must lie between 0 and 100, got 100"),
        ({"percentile": "95"}, "percentile must be a number, got '95'"),
        ({"percentile": 99, "repeats": 50}, "50 calls cannot tell what 99 % ... repeats >= 100"),
        ({"repeats": 0}, "repeats must be a whole number >= 1, got 0"),
        ({"warmup": 1.5}, "warmup must be a whole number >= 0, got 1.5"),
        ({"device": "gpu"}, "device must be 'cpu' or a GPU such as 'cuda:0', got 'gpu'"),
        ({"aside": "core 7"}, "aside must be cores such as {7} or a GPU 'cuda:1', got 'core 7'"),
        ({"aside": []}, "aside must be cores such as {7} ... got []"),
        ({"aside": 7}, "aside must be cores such as {7} ... got 7"),
        ({"aside": {-1}}, "aside must be cores such as {7} ... got {-1}"),
        ({"aside": {1}, "device": "cpu"}, "give device='cpu' or aside={1}, not both"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], error: str) -> None:
    with pytest.raises(GoalError) as raised:
        LatencyCheck(**({"call": len} | options))
    assert all(part in str(raised.value) for part in error.split(" ... "))


# -- set aside -----------------------------------------------------------------------------------


def test_a_gpu_set_aside_is_known_by_its_physical_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    check = LatencyCheck(len, aside="cuda:1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4")  # what a worker sees
    assert pickle.loads(pickle.dumps(check)).aside == "6"
    assert not check.measured_alone


def where(model: Any) -> tuple[int, set[int], str]:
    return os.getpid(), os.sched_getaffinity(0), os.environ.get("OMP_NUM_THREADS", "")


@pytest.fixture
def helper() -> Any:
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    found = helper_on(frozenset(CORES[-1:]))
    yield found
    found.close()


@pytest.mark.slow
def test_a_core_set_aside_is_where_it_runs(helper: Any) -> None:
    process, cores, threads = helper.run(where, None)
    assert process != os.getpid()
    assert cores == set(CORES[-1:]) and threads == "1"
    assert helper.run(where, None)[0] == process  # one process for all
    check = LatencyCheck(lambda model: sum(model), repeats=20, aside=CORES[-1:])
    profile = check.profile([1, 2])
    assert isinstance(profile, LatencyProfile) and profile.repeats == 20
    assert profile.hardware.split(", ")[1] == f"1 of {os.cpu_count()} cores"


@pytest.mark.slow
def test_a_helper_that_dies_is_a_failed_check_and_is_started_anew(helper: Any) -> None:
    check = LatencyCheck(lambda model: model(), warmup=0, repeats=20, aside=CORES[-1:])
    goals = Goals(Objective("loss"), (Constraint("ms", upper=1e9, check=check),))

    def measured(model: Callable[[], object]) -> Any:
        return evaluate(goals, {"ms": check}, model, lambda: 0.0, lambda _: None)[0]["ms"]

    assert isinstance(measured(lambda: None), Estimate)
    failed = measured(lambda: os.kill(os.getpid(), signal.SIGKILL))
    assert isinstance(failed, FailedCheck)
    assert "which is set aside, was killed by SIGKILL (" in failed.error
    assert "); it is started again" in failed.error
    assert isinstance(measured(lambda: None), Estimate)
    process = helper.run(where, None)[0]
    failed = measured(lambda: 1 / 0)
    assert isinstance(failed, FailedCheck) and "ZeroDivisionError" in failed.error
    assert helper.run(where, None)[0] == process  # an error ends nothing


def test_what_cannot_be_sent_is_an_error_before_anything_is_started() -> None:
    there = helper_on(frozenset([12345]))
    with pytest.raises(TypeError, match="pickle"):
        there.run(where, threading.Lock())


def test_cores_that_do_not_exist_are_named() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(
        MeasurementError, match=r"cores \[12345\] cannot be set aside: this machine"
    ):
        helper_on(frozenset([CORES[0], 12345])).run(where, None)
    assert os.sched_getaffinity(0) == before


@pytest.mark.slow
def test_what_goes_wrong_there_is_told_with_the_place(helper: Any) -> None:
    with pytest.raises(MeasurementError) as raised:
        helper.run(lambda _: 1 / 0, None)
    where = f"(on the process on core {CORES[-1]}, which is set aside)"
    assert str(raised.value) == f"ZeroDivisionError: division by zero {where}"


@pytest.mark.slow
def test_processes_that_record_curves_have_the_threads_of_those_that_train() -> None:
    ((_, found),) = run_jobs(lambda names: [os.environ[name] for name in names], [THREADS], 1, 3)
    assert found == ["3"] * 5


# -- measured again, and what is counted ---------------------------------------------------------


class Noisy:
    """A check that gives made numbers, one after the other, and takes made time."""

    measured_alone = measures_again = True

    def __init__(self, clock: Made, *values: float) -> None:
        self.clock, self.values = clock, list(values)

    def __call__(self, model: object) -> float:
        self.clock.call()
        return self.values.pop(0)


def test_a_new_best_is_measured_again_and_the_second_time_counts() -> None:
    made = Made([1.0])
    check, other = Noisy(made, 1.0, 3.0), Noisy(made, 0.5)
    other.measures_again = False
    limits = (Constraint("ms", upper=2), Constraint("size", upper=2))
    goals = Goals(Objective("loss"), limits)
    checks = {"ms": check, "size": other}
    measured, costs, _ = evaluate(goals, checks, None, made.clock, lambda _: None, best=True)
    assert measured == {"ms": Estimate(3.0), "size": Estimate(0.5)}
    assert costs == {"ms": 2.0, "size": 1.0}  # both times cost something
    assert not goals.judge(measured)[0]


@pytest.mark.parametrize(("values", "best"), [((1.0,), False), ((3.0,), True)])
def test_what_is_no_new_best_is_measured_once(values: tuple[float, ...], best: bool) -> None:
    made = Made([1.0])
    goals = Goals(Objective("loss"), (Constraint("ms", upper=2),))
    checks = {"ms": Noisy(made, *values)}
    measured, costs, _ = evaluate(goals, checks, None, made.clock, lambda _: None, best=best)
    assert measured == {"ms": Estimate(values[0])} and costs == {"ms": 1.0}


def test_waiting_to_be_alone_is_no_cost_and_no_timeout_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Made([1.0])
    check = Noisy(made, 1.0)
    goals = Goals(Objective("loss"), (Constraint("ms", upper=2, timeout_s=9),))
    training = threading.Event()
    told: list[tuple[str | None, float]] = []

    class Training(DeviceUse):
        def enter(self) -> None:
            super().enter()
            training.set()

    def train() -> None:
        use = Training()
        use.expect([check])
        turnstile = tmp_path / f"acetune-locks-{os.getuid()}" / "cpu.turnstile"
        while not _waited_for(turnstile):
            pass
        made.now += 100.0
        use.leave()

    trainer = threading.Thread(target=train)
    trainer.start()
    training.wait(60)
    _, costs, _ = evaluate(
        goals,
        {"ms": check},
        None,
        made.clock,
        lambda name: told.append((name, made.now)),
        measuring=alone,
    )
    trainer.join(60)
    assert costs == {"ms": 1.0}
    assert told == [("ms", 100.0), (None, 101.0)]


class Waiting(Link):
    """An engine that answers a report just when somebody else begins to measure."""

    def __init__(self, made: Made, check: object) -> None:
        self.made, self.check = made, check
        self.reports: list[Report] = []
        self.others: list[threading.Thread] = []

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        return Plan(1, math.inf, -math.inf)

    def note_hardware(self, description: str) -> None: ...

    def checking(self, constraint: str | None) -> None: ...

    def keep_model(self, step: int, model: object) -> None: ...

    def fresh_gate(self, report: Report) -> float:
        return math.inf

    def report(self, report: Report) -> Reply:
        self.reports.append(report)
        measuring = threading.Event()

        def measure() -> None:
            with alone(self.check):
                measuring.set()
                time.sleep(0.2)  # until the trial waits
                self.made.now += 100.0

        self.others.append(threading.Thread(target=measure))
        self.others[-1].start()
        measuring.wait(60)
        decision = Decision(Action.CONTINUE, "", step=report.step)
        return Reply(decision, math.inf, -math.inf, stop=False, ended=report.step == 3)


class Asked(Waiting):
    """An engine that notes whether it could measure alone while the trial waits for its answer."""

    def __init__(self) -> None:
        self.found: list[tuple[str, bool]] = []

    def note(self, question: str) -> None:
        path = lock_folder() / "cpu.room"
        self.found.append((question, not _waited_for(path, fcntl.LOCK_EX)))

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        self.note("begin")
        return Plan(None, math.inf, -math.inf)

    def declare(self, total_steps: int) -> None:
        self.note("declare")

    def fresh_gate(self, report: Report) -> float:
        self.note("fresh_gate")
        return math.inf

    def report(self, report: Report) -> Reply:
        self.note("report")
        decision = Decision(Action.CONTINUE, "", step=report.step)
        return Reply(decision, math.inf, -math.inf, stop=False, ended=False)

    def finish(self, report: Report | None) -> None:
        self.note("finish" if report is None else "finish with a check")


@pytest.mark.parametrize("loss", [1.0, math.nan])
def test_a_trial_waits_for_no_answer_while_it_is_in_a_room(
    loss: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    link = Asked()
    check = Noisy(Made([1.0]), 1.0, 1.0)
    goals = Goals(Objective("loss"), (Constraint("ms", upper=2, check=check),))
    policy = acetune.ACE(interval="end")
    with Trial(ExclusiveLink(link), goals, policy, number=1, params={}, folder=tmp_path) as trial:
        trial.declare(9)
        trial.declare(10)
        trial.report(loss, model=None)  # has converged
        assert _waited_for(lock_folder() / "cpu.room", fcntl.LOCK_EX)
    asked = ["begin", "declare", "report"]
    asked += ["finish"] if math.isnan(loss) else ["fresh_gate", "finish with a check"]
    assert link.found == [(question, True) for question in asked]


@pytest.mark.parametrize("steps", [True, False])
def test_waiting_for_others_is_no_training(
    steps: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = Made([1.0])
    check = SimpleNamespace(measured_alone=True)
    link = Waiting(made, check)
    never = Constraint("ms", upper=2, check=lambda model: 1.0)
    never.check.measured_alone = True  # type: ignore[union-attr]
    trial = Trial(
        ExclusiveLink(link),
        Goals(Objective("loss"), (never,)),
        acetune.ACE(),
        number=1,
        params={},
        folder=tmp_path,
        clock=made.clock,
    )
    trial.declare(3)
    trial.start_step()
    for _ in trial.steps(3) if steps else range(3):
        made.call()
        trial.report(1.0, model=None)
    for other in link.others:
        other.join(60)
    assert [report.primary_cost_s for report in link.reports] == [1.0, 1.0, 1.0]


def _waited_for(path: Path, how: int = fcntl.LOCK_SH) -> bool:
    with path.open() as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
