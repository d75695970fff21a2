"""Two processes share a trial: rank 0 decides, both stop at the same step, nobody is left waiting.

A pair of processes plays all scenes one after the other, over a pipe and over torch.distributed.
"""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from acetune import ACE, Constraint, Trial, TrialStopped
from acetune.core.decision import Action, Decision
from acetune.core.errors import MissingExtraError, ReportError
from acetune.core.goals import Goals, Objective
from acetune.core.trial_record import Progress
from acetune.distributed import Broadcast, SharedTrial, torch_broadcast
from acetune.trial.link import Link, Plan, Reply, Report

TOTAL = 6
SPAWN = multiprocessing.get_context("spawn")


class ScriptedLink(Link):
    """An engine that does at a step what the scene says."""

    def __init__(self, at_step: int = 0, act: Callable[[], bool] = lambda: False) -> None:
        self._at_step, self._act = at_step, act

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        return Plan(1, float("inf"), float("inf"))

    def report(self, report: Report) -> Reply:
        stop = self._act() if report.step == self._at_step else False
        action = Action.STOP if stop else Action.CONTINUE
        decision = Decision(action, "rank {rank} of {of}", rank=1, of=9, step=report.step)
        return Reply(decision, float("inf"), float("inf"), stop, stop)

    def fresh_gate(self, report: Report) -> float:
        return float("inf")

    def declare(self, total_steps: int) -> None: ...

    def checking(self, constraint: str | None) -> None: ...

    def finish(self, report: Report | None) -> None: ...

    def keep_model(self, step: int, model: object) -> None: ...

    def keep_checkpoint(self, step: int, source: object) -> None: ...


def scripted_trial(link: ScriptedLink, last_step: int = 0, **params: Any) -> Trial:
    constraint = Constraint("eod", upper=0.5)
    return Trial(
        link,
        Goals(Objective("auc", "max"), (constraint,)),
        ACE(),
        number=7,
        params={"rate": 0.5, **params},
        folder=Path(),
        checkpoint=Path("before") if last_step else None,
        progress=Progress(last_step=last_step),
    )


def stop() -> bool:
    return True


def fail() -> bool:
    raise RuntimeError("the engine is gone")


def exit_as_ray_does() -> bool:
    sys.exit(0)


def interrupt() -> bool:
    raise KeyboardInterrupt


def interrupted_check() -> float:
    raise KeyboardInterrupt


SCENES = {  # what rank 0 holds
    "finish": lambda: scripted_trial(ScriptedLink()),
    "stop": lambda: scripted_trial(ScriptedLink(3, stop)),
    "stopped by Ray": lambda: scripted_trial(ScriptedLink(3, exit_as_ray_does)),
    "failed report": lambda: scripted_trial(ScriptedLink(3, fail)),
    "interrupt": lambda: scripted_trial(ScriptedLink(3, interrupt)),
    "interrupted check": lambda: scripted_trial(ScriptedLink(), check=interrupted_check),
    "resume": lambda: scripted_trial(ScriptedLink(), last_step=4),
    "cannot be sent": lambda: scripted_trial(ScriptedLink(), what=lambda: None),
    "wrong total": lambda: scripted_trial(ScriptedLink(), total=-1),
    "again": lambda: scripted_trial(ScriptedLink()),  # still in step after all that
}


@dataclass
class Seen:
    """What a rank has seen of a scene."""

    steps: list[int] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    error: str = ""
    about: tuple[Any, ...] = ()
    stop: bool = False
    reason: str = ""
    report_again: str = ""


def train(trial: Trial | None, broadcast: Broadcast) -> Seen:
    """The loop, the same on every rank."""
    seen = Seen()
    try:
        shared = SharedTrial(trial, broadcast)
        seen.about = shared.params, shared.number, shared.checkpoint
        check = shared.params.get("check", lambda: 0.25)
        for step in shared.steps(shared.params.get("total", TOTAL)):
            seen.steps.append(step)
            seen.decisions.append(shared.report(auc=0.5, constraints={"eod": check}))
        seen.stop, seen.reason = shared.should_stop, shared.stop_reason
    except BaseException as error:
        seen.error = f"{type(error).__name__}: {error}"
        return seen
    if shared.should_stop:
        with pytest.raises(TrialStopped) as stopped:  # without waiting for the other rank
            shared.report(auc=0.5)
        seen.report_again = str(stopped.value)
    return seen


def pipe_broadcast(rank: int, pipe: Connection) -> Broadcast:
    def broadcast(content: Any) -> Any:
        if rank:
            return pipe.recv()
        pipe.send(content)
        return content

    return broadcast


def run_rank(rank: int, pipe: Connection | None, port: int, result: Connection) -> None:
    """One of the two processes."""
    if pipe is not None:
        broadcast = pipe_broadcast(rank, pipe)
    else:
        import torch.distributed

        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo")
        torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
        broadcast = torch_broadcast()
    for scene, make in SCENES.items():
        result.send((scene, train(make() if rank == 0 else None, broadcast)))
    result.close()
    if pipe is None:
        torch.distributed.destroy_process_group()


@pytest.fixture(scope="module", params=["pipe", "gloo"])
def seen(request: pytest.FixtureRequest) -> Iterator[dict[str, list[Seen]]]:
    """What both ranks have seen, by scene."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    ends = SPAWN.Pipe() if request.param == "pipe" else (None, None)
    processes, results = [], []
    for rank in (0, 1):
        ours, theirs = SPAWN.Pipe(duplex=False)
        results.append(ours)
        processes.append(SPAWN.Process(target=run_rank, args=(rank, ends[rank], port, theirs)))
        processes[-1].start()
        theirs.close()
    found: dict[str, list[Seen]] = {}
    try:
        for scene in SCENES:
            for result in results:
                assert result.poll(60), f"{scene}: a rank waits for ever"
                name, what = result.recv()
                found.setdefault(name, []).append(what)
        for process in processes:
            process.join(30)
            assert process.exitcode == 0
        yield found
    finally:
        for process in processes:
            process.kill()
            process.join()
        for end in (*results, *ends):
            if end is not None:
                end.close()


def test_both_finish(seen: dict[str, list[Seen]]) -> None:
    for scene in ("finish", "again"):
        zero, one = seen[scene]
        assert zero == one
        assert zero.steps == [1, 2, 3, 4, 5, 6]
        assert zero.about == ({"rate": 0.5}, 7, None)
        assert not zero.stop and not zero.reason and not zero.error
        assert [decision.reason for decision in one.decisions] == ["rank 1 of 9"] * 6


def test_both_stop_at_the_same_step(seen: dict[str, list[Seen]]) -> None:
    zero, one = seen["stop"]
    assert zero.steps == one.steps == [1, 2, 3]
    assert zero.decisions == one.decisions
    assert zero.stop and one.stop
    assert zero.reason == one.reason == "rank 1 of 9"
    assert not zero.error and not one.error
    for rank in (zero, one):
        assert "trial 7 was told to stop (rank 1 of 9)" in rank.report_again


def test_where_ray_stops_rank_0_the_other_leaves_its_loop(seen: dict[str, list[Seen]]) -> None:
    zero, one = seen["stopped by Ray"]
    assert zero.steps == one.steps == [1, 2, 3]
    assert zero.error == "SystemExit: 0"
    assert not one.error
    assert one.stop and one.reason == "stopped by the scheduler"
    assert one.decisions[-1].stop and not one.decisions[-2].stop


@pytest.mark.parametrize(
    ("scene", "steps", "error", "call"),
    [
        ("failed report", [1, 2, 3], "RuntimeError: the engine is gone", "report()"),
        ("interrupt", [1, 2, 3], "KeyboardInterrupt: ", "report()"),
        ("interrupted check", [1], "KeyboardInterrupt: ", "report()"),
        ("wrong total", [], "ReportError: total_steps must be", "steps()"),
        ("cannot be sent", [], "", "SharedTrial()"),  # in words of pickle
    ],
)
def test_an_error_of_rank_0_reaches_the_other(
    seen: dict[str, list[Seen]], scene: str, steps: list[int], error: str, call: str
) -> None:
    zero, one = seen[scene]
    assert zero.steps == one.steps == steps
    assert zero.error.startswith(error)
    assert one.error == f"ReportError: rank 0 failed in {call}: {zero.error}"


def test_both_go_on_after_the_checkpoint_of_rank_0(seen: dict[str, list[Seen]]) -> None:
    zero, one = seen["resume"]
    assert zero == one
    assert zero.steps == [5, 6]
    assert zero.about[2] == Path("before")


def test_ranks_at_different_places() -> None:
    words: list[Any] = []
    SharedTrial(SCENES["finish"](), lambda word: words.append(word))
    other = SharedTrial(None, lambda _: words[-1])
    with pytest.raises(ReportError, match=r"rank 0 called SharedTrial\(\), this one report\(\)"):
        other.report(auc=0.5)


def test_a_missing_torch_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.distributed", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'acetune\[torch\]'"):
        torch_broadcast()
