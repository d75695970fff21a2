"""The broadcast: a small named actor with which the driver publishes what workers gate on.

The driver writes, workers read. A worker that reads late checks more than it had to, and that is
all: f* never rises. A broadcast that dies is made again by the driver; until then workers go on
with what they read last.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import math
import time
from typing import Any, NamedTuple

import ray
from ray.exceptions import RayActorError, RayError

from acetune.core.errors import StudyError
from acetune.core.goals import Goals
from acetune.core.learning import Trend
from acetune.core.measured_costs import Costs
from acetune.policies import Policy

NAMESPACE = "acetune"
_INTRODUCE_S = 60.0
_NO_BROADCAST_S = 15.0  # the scheduler makes it before the first trial starts
_ACKNOWLEDGE_S = 1.0
_PAUSE_S = 0.2
_SILENT_S = 10.0
_LOOK_AGAIN_S = 2.0

logger = logging.getLogger("acetune.ray")


class Terms(NamedTuple):
    """What stays the same over an experiment."""

    goals: Goals
    policy: Policy
    confirm_top: int
    keep_models: int


class View(NamedTuple):
    """How the experiment stands, as far as workers need to know."""

    costs: Costs
    best: tuple[tuple[float, str], ...]  # best valid losses and whose they are, best first
    median_violation: float
    largest_violation: float
    trend: Trend | None = None  # for policies that learn

    def kth_best(self, k: int, trial: str, own_best: float) -> float:
        """The k-th best of the trials' valid losses, with what the asking trial knows of itself."""
        losses = sorted([loss for loss, whose in self.best if whose != trial] + [own_best])
        return losses[k - 1] if len(losses) >= k else math.inf


def broadcast_name(experiment: str) -> str:
    """One broadcast an experiment and driver: a restored experiment has another driver."""
    job = ray.get_runtime_context().get_job_id()
    return f"acetune-{job}-{hashlib.sha256(experiment.encode()).hexdigest()[:16]}"


class Broadcast:
    """The actor."""

    def __init__(self, terms: list[Any]) -> None:
        self._terms = terms  # in a list: a reference that is not followed here
        self._view: View | None = None
        self._last_words: dict[str, str] = {}  # of trials that had to end their own process

    def publish(self, view: View) -> None:
        """The driver says how things stand."""
        self._view = view

    def read(self) -> View | None:
        """How things stand, or None if the driver has not said yet."""
        return self._view

    def introduce(self) -> tuple[Any, View | None]:
        """For a worker that begins: where the terms are, and how things stand."""
        return self._terms[0], self._view

    def leave(self, trial: str, words: str) -> None:
        """What a trial has to say that cannot report any more."""
        self._last_words[trial] = words

    def last_words(self, trial: str) -> str | None:
        """What a trial has left, once."""
        return self._last_words.pop(trial, None)


class Publisher:
    """The driver's end: makes the broadcast, and makes it again if it is gone."""

    def __init__(self, experiment: str, terms: Terms) -> None:
        self.name = broadcast_name(experiment)
        # checks may hold data: it goes to each node once, and never through the broadcast
        self._terms = ray.put(terms)
        self._broadcast: Any = None
        self._sent: list[Any] = []  # not known yet to have arrived
        self._latest: View | None = None

    def publish(self, view: View, wait: bool = False) -> None:
        """Say how things stand; ``wait`` until it is there, but not long."""
        self._latest = view
        self._collect(wait=False)
        if self._broadcast is None and not self._make():
            return
        self._sent.append(self._broadcast.publish.remote(view))
        if wait:
            self._collect(wait=True)

    def look_after(self) -> None:
        """Make the broadcast again if it has died. Called now and then."""
        self._collect(wait=False)
        if self._latest is not None and not self._sent:
            self.publish(self._latest)  # whether it lives is known when this arrives, or does not

    def last_words(self, trial: str) -> str | None:
        """What a trial has left with the broadcast that had to end its own process."""
        if self._broadcast is None:
            return None
        try:
            words: str | None = ray.get(
                self._broadcast.last_words.remote(trial), timeout=_ACKNOWLEDGE_S
            )
        except RayError:
            return None
        return words

    def close(self) -> None:
        """The experiment is over."""
        if self._broadcast is not None and ray.is_initialized():
            with contextlib.suppress(RayError):  # another Ray than the one that it belonged to
                ray.kill(self._broadcast)
        self._broadcast = None

    def _make(self) -> bool:
        try:
            self._broadcast = (
                ray.remote(Broadcast)
                .options(name=self.name, namespace=NAMESPACE, num_cpus=0, max_restarts=0)
                .remote([self._terms])
            )
        except ValueError:
            return False  # the name of one that has just died is not free yet: the next time
        return True

    def _collect(self, wait: bool) -> None:
        """See what has arrived; a broadcast that is gone takes what was sent to it along."""
        if not self._sent:
            return
        timeout = _ACKNOWLEDGE_S if wait else 0
        done, self._sent = ray.wait(self._sent, num_returns=len(self._sent), timeout=timeout)
        try:
            ray.get(done)
        except RayActorError:
            logger.warning("the broadcast %s is gone; making it again", self.name)
            self._broadcast, self._sent = None, []
            if self._latest is not None and self._make():
                self._sent.append(self._broadcast.publish.remote(self._latest))


class BroadcastReader:
    """A worker's end: reads without waiting, except once, when it begins."""

    def __init__(self, experiment: str) -> None:
        self._name = broadcast_name(experiment)
        self._broadcast: Any = None
        self._asked: Any = None
        self._asked_at = 0.0
        self._lost_at: float | None = None
        self.notice = ""  # what went wrong, until somebody takes it

    def introduce(self) -> tuple[Terms, View]:
        """Find the broadcast, and wait until the driver has said something."""
        began = time.monotonic()
        patience = _NO_BROADCAST_S
        while time.monotonic() < began + patience:
            try:
                self._broadcast = ray.get_actor(self._name, namespace=NAMESPACE)
                patience = _INTRODUCE_S  # it is there, and may be slow to start
                terms, view = ray.get(self._broadcast.introduce.remote(), timeout=_INTRODUCE_S)
                if view is not None:
                    return ray.get(terms), view
            except (ValueError, RayError):
                pass  # not made yet, or being made again
            time.sleep(0.1)
        raise StudyError(
            f"no AceScheduler has answered for {patience:g} s: acetune.ray.trial() needs "
            "TuneConfig(scheduler=acetune.ray.AceScheduler(...))"
        )

    def leave(self, trial: str, words: str) -> None:
        """Last words of a trial that ends its process now."""
        if self._found():
            with contextlib.suppress(RayError):
                ray.get(self._broadcast.leave.remote(trial, words), timeout=_ACKNOWLEDGE_S)

    def ask(self) -> None:
        """Ask how things stand, unless that was a moment ago; :meth:`answer` has it later."""
        now = time.monotonic()
        if self._asked is None and now >= self._asked_at + _PAUSE_S and self._found():
            self._asked, self._asked_at = self._broadcast.read.remote(), now

    def answer(self) -> View | None:
        """The answer to :meth:`ask` if it has come, else None."""
        if self._asked is None:
            return None
        if not ray.wait([self._asked], timeout=0)[0]:
            if time.monotonic() > self._asked_at + _SILENT_S:
                self._lose()
            return None
        asked, self._asked = self._asked, None
        try:
            view: View | None = ray.get(asked)
        except RayError:
            self._lose()
            return None
        return view

    def _lose(self) -> None:
        """The broadcast is gone, or does not answer: go on, say so, and look for it again later."""
        self._broadcast = self._asked = None
        self._lost_at = time.monotonic()
        self.notice = (
            "cannot reach the broadcast that publishes the best feasible value; going on with the "
            "last value known, which can only mean more checks"
        )
        logger.warning(self.notice)

    def _found(self) -> bool:
        if self._broadcast is not None:
            return True
        now = time.monotonic()
        if self._lost_at is not None and now < self._lost_at + _LOOK_AGAIN_S:
            return False
        try:
            self._broadcast = ray.get_actor(self._name, namespace=NAMESPACE)
        except ValueError:
            self._lost_at = now
            return False
        self._lost_at = None
        return True
