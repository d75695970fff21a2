"""What runs in the process of a contender: the default of tune(), or a peer, on a task.

All train with the same functions and check with the same ones. Peers are called as their users
call them, in one process and with nothing written to disk: each step is reported, and the best
checkpoint of each trial, pruned or not, is checked when the trial ends.
"""

from __future__ import annotations

import json
import math
import socket
import tempfile
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

from acetune.core.goals import Estimate, FailedCheck, Goals
from acetune.core.outcome import Outcome
from acetune.replay.training import Task, goals_of
from acetune.run.tuning import tune
from acetune.searchers import make_searcher
from acetune.searchers.optuna_samplers import amounts, distributions
from acetune.searchers.space import Space
from acetune.study.best_checkpoints import checkpoint, incumbents
from acetune.study.reader import viewing
from acetune.study.report_arrays import STEP
from acetune.trial.checks import evaluate
from acetune.trial.trial import Trial
from benchmarks.live_tasks import TASKS

DEFAULT = "default"
_DIGITS = 6

Clock = Callable[[], float]


class Known(NamedTuple):
    """A best feasible answer, from when it was known on."""

    time_s: float
    value: float
    constraints: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a contender came to."""

    known: tuple[Known, ...]  # each better than the one before
    held_out: Mapping[str, float] | None  # the last of them on rows that nothing was selected by
    unlimited: float | None  # the best objective seen, whatever the limits
    trials: int
    steps: int
    checks: int
    first_step_s: float | None  # until the first report
    worked_s: float

    @property
    def best(self) -> float | None:
        """The answer; None where nothing feasible was found."""
        return self.known[-1].value if self.known else None


@dataclass(frozen=True, slots=True)
class Order:
    """What a contender is told to run."""

    contender: str
    task: str
    data: str | None
    seed: int
    seconds: float


# -- the default -----------------------------------------------------------------------------------


def run_default(task: Task, seed: int, seconds: float) -> Ran:
    """``tune()`` as it comes, with one worker; the start of the worker is in its time."""
    with tempfile.TemporaryDirectory() as folder:
        study, began = Path(folder) / "study.db", time.time()
        tune(
            task.train,
            task.space,
            objective=task.objective,
            mode=task.mode,
            constraints=task.constraints,
            time_budget_s=seconds,
            workers=1,
            threads=1,
            seed=seed,
            study=study,
            progress=False,
        )
        worked_s = time.time() - began
        with viewing(study) as view:
            times, objective = view.reports.time - began, goals_of(task).objective
            # what the study has found out after its time is up does not count
            rows = [row for row in incumbents(view).tolist() if times[row] <= seconds]
            found = [checkpoint(view, row) for row in rows]
            steps = view.reports.kind == STEP
            losses = [objective.loss(value) for value in view.reports.objective[steps].tolist()]
            return Ran(
                tuple(
                    _known(float(times[row]), one.value, one.constraints)
                    for row, one in zip(rows, found, strict=True)
                ),
                _held_out(task, found[-1].load()) if found else None,
                objective.value(min(losses)) if losses else None,
                len(view.trials),
                len(losses),
                len(set(view.checks.row.tolist())),
                float(times[steps].min()) if losses else None,
                worked_s,
            )


# -- peers -----------------------------------------------------------------------------------------


class Peer(ABC):
    """Who suggests configurations and prunes trials."""

    @abstractmethod
    def ask(self) -> dict[str, Any]:
        """The next configuration."""

    def prunes(self, value: float, step: int) -> bool:
        """A step was reported: whether the trial ends here."""
        return False

    @abstractmethod
    def tell(
        self, loss: float, measured: Mapping[str, Estimate | FailedCheck], *, pruned: bool
    ) -> None:
        """The trial has ended: its best checkpoint."""


class OptunaPeer(Peer):
    """Optuna's TPE with constraints, and one of its pruners."""

    def __init__(self, pruner: str, task: Task, seed: int, most_steps: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        pruners: dict[str, Callable[[], Any]] = {
            "median": optuna.pruners.MedianPruner,
            "halving": optuna.pruners.SuccessiveHalvingPruner,
            # by itself it takes the first trial that ends for the longest there is
            "hyperband": lambda: optuna.pruners.HyperbandPruner(max_resource=most_steps),
        }
        self._pruned = optuna.trial.TrialState.PRUNED
        self._goals, self._largest = goals_of(task), 1.0
        self._study = optuna.create_study(
            direction="maximize" if task.mode == "max" else "minimize",
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=pruners[pruner](),
        )
        self._distributions = distributions(Space(task.space))
        self._trial: Any = None

    def ask(self) -> dict[str, Any]:
        self._trial = self._study.ask(self._distributions)
        return dict(self._trial.params)

    def prunes(self, value: float, step: int) -> bool:
        self._trial.report(value, step)
        return bool(self._trial.should_prune())

    def tell(
        self, loss: float, measured: Mapping[str, Estimate | FailedCheck], *, pruned: bool
    ) -> None:
        for name, value in amounts(self._goals, measured, self._largest).items():
            self._largest = max(self._largest, value)
            self._trial.set_constraint(name, value)
        if pruned:
            self._study.tell(self._trial, state=self._pruned)
        else:
            self._study.tell(self._trial, self._goals.objective.value(loss))


class BlendSearchPeer(Peer):
    """FLAML's BlendSearch with constraints, fixed as in acetune's searcher of that name."""

    def __init__(self, task: Task, seed: int) -> None:
        self._goals, self._number = goals_of(task), 0
        self._search = make_searcher("blendsearch", Space(task.space), seed=seed)

    def ask(self) -> dict[str, Any]:
        self._number += 1
        return self._search.ask(self._number)

    def tell(
        self, loss: float, measured: Mapping[str, Estimate | FailedCheck], *, pruned: bool
    ) -> None:
        violation = self._goals.violation(measured)
        failed = not math.isfinite(violation)
        outcome = Outcome(None if failed else loss, 1.0 if failed else violation, failed)
        self._search.tell(self._number, outcome)


MakePeer = Callable[[Task, int, int], Peer]
PEERS: Mapping[str, tuple[str, MakePeer]] = {
    "optuna-median": (
        "Optuna's TPE, median pruner",
        lambda task, seed, most: OptunaPeer("median", task, seed, most),
    ),
    "optuna-halving": (
        "Optuna's TPE, SuccessiveHalving",
        lambda task, seed, most: OptunaPeer("halving", task, seed, most),
    ),
    "optuna-hyperband": (
        "Optuna's TPE, Hyperband",
        lambda task, seed, most: OptunaPeer("hyperband", task, seed, most),
    ),
    "blendsearch": (
        "FLAML's BlendSearch, no pruner",
        lambda task, seed, most: BlendSearchPeer(task, seed),
    ),
}


class PeerTrial:
    """What a training function sees of a peer: as much of a Trial as the tasks here use."""

    threads = 1

    def __init__(
        self, params: Mapping[str, Any], goals: Goals, goes_on: Callable[[float, int], bool]
    ) -> None:
        self.params = dict(params)
        self._objective, self._goes_on = goals.objective, goes_on
        self._step, self._going = 0, True
        self.best: tuple[float, Any] | None = None  # loss and a copy of the checkpoint

    def steps(self, total_steps: int) -> Iterator[int]:
        while self._going and self._step < total_steps:
            self._step += 1
            yield self._step

    def report(self, *, model: Any, snapshot: Callable[[Any], Any], **metrics: float) -> None:
        value = metrics[self._objective.name]
        loss = self._objective.loss(value)
        if self.best is None or loss < self.best[0]:
            self.best = (loss, snapshot(model))
        self._going = self._goes_on(value, self._step)


def run_peer(task: Task, peer: Peer, seconds: float, clock: Clock = time.perf_counter) -> Ran:
    """Trials one after another until the time is up.

    The trial that is under way then ends with that step, and what its check finds still counts.
    """
    goals, space, began = goals_of(task), Space(task.space), clock()
    checks = {c.name: c.check for c in goals.constraints if c.check is not None}
    known: list[Known] = []
    best_loss = unlimited = math.inf
    answer: Any = None
    trials = steps = 0
    first_s: float | None = None
    late = pruned = False

    def goes_on(value: float, step: int) -> bool:
        nonlocal steps, first_s, late, pruned
        now = clock() - began
        steps, first_s = steps + 1, now if first_s is None else first_s
        pruned, late = peer.prunes(value, step), now >= seconds
        return not (pruned or late)

    while not late and clock() - began < seconds:
        trial = PeerTrial(space.complete(peer.ask()), goals, goes_on)
        trials += 1
        task.train(cast(Trial, trial))
        assert trial.best is not None, "the training function reported nothing"
        loss, model = trial.best
        unlimited = min(unlimited, loss)
        # as in tune(): a noisy check of what would be the best is made twice
        would_win = loss < best_loss
        checked = evaluate(goals, checks, model, clock, lambda _: None, best=would_win)
        if checked.valid and would_win:
            best_loss, answer = loss, model
            values = {n: m for n, m in checked.measured.items() if isinstance(m, Estimate)}
            known.append(_known(clock() - began, goals.objective.value(loss), values))
        peer.tell(loss, checked.measured, pruned=pruned)
    worked_s = clock() - began
    return Ran(
        tuple(known),
        _held_out(task, answer) if known else None,
        goals.objective.value(unlimited) if trials else None,
        trials,
        steps,
        trials,
        first_s,
        worked_s,
    )


def _known(time_s: float, value: float, constraints: Mapping[str, Estimate]) -> Known:
    values = {name: round(found.value, _DIGITS) for name, found in constraints.items()}
    return Known(round(time_s, 3), round(value, _DIGITS), values)


def _held_out(task: Task, model: Any) -> dict[str, float]:
    assert task.confirm is not None
    found = task.confirm(model)
    return {name: round(cast(Estimate, value).value, _DIGITS) for name, value in found.items()}


# -- the process -----------------------------------------------------------------------------------


def contend(link: socket.socket, order: str) -> None:
    """Where the process of a contender begins: it says that it is ready, and waits for the start.

    By then everything is imported and the data are read.
    """
    with link, link.makefile("rw", encoding="utf-8") as lines:
        try:
            asked = Order(**json.loads(order))
            live = TASKS[asked.task]
            task = live.make(None if asked.data is None else Path(asked.data))
            peer = None
            if asked.contender != DEFAULT:
                peer = PEERS[asked.contender][1](task, asked.seed, live.most_steps(task))
            print("ready", file=lines, flush=True)
            if lines.readline() != "start\n":
                return
            if peer is None:
                ran = run_default(task, asked.seed, asked.seconds)
            else:
                ran = run_peer(task, peer, asked.seconds)
            answer: dict[str, Any] = {"ran": ran_to_json(ran)}
        except Exception:  # whatever it is, the match is called off and the contender named
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=lines, flush=True)


def ran_to_json(ran: Ran) -> dict[str, Any]:
    """As plain data."""
    return {**asdict(ran), "known": [known._asdict() for known in ran.known]}


def ran_from_json(found: Mapping[str, Any]) -> Ran:
    """The inverse."""
    return Ran(**{**found, "known": tuple(Known(**known) for known in found["known"])})
