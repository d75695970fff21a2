"""Workers as actors of a Ray cluster.

An actor's one long call connects back to the driver over TCP and then speaks with it as a local
worker does. Ray only places and ends it: no report passes through Ray.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from pathlib import Path
from typing import Any

import numpy as np
import ray

from acetune.core.say_once import SayOnce
from acetune.interprocess.child import module_path
from acetune.run._local_workers import worker_variables
from acetune.run._messages import DriverChannel, Notice, Setup
from acetune.run._ray_actor import AcetuneWorker
from acetune.run._ray_cluster import RayCluster
from acetune.run._ray_connections import ConnectionListener

_LOOK_S = 0.25
_NO_ROOM_S = 30.0  # an actor that has not come up for so long has found no room
_TELLING_S = 3.0  # for Ray to say why a connection broke


class RayWorker:
    """One actor with its connection. Nothing tells its end: the site looks."""

    exit_handle = None
    log = "the logs of Ray, by default in /tmp/ray/session_latest/logs"

    def __init__(self, actor: Any, serving: Any, token: bytes) -> None:
        self.pipe: DriverChannel | None = None
        self.serving, self.token = serving, token
        self.started = time.monotonic()
        self.connected = self.killed = False
        self._actor = actor
        self._ended: str | None = None
        self._hung_up: float | None = None
        self._unreachable = False

    def send(self, message: object) -> None:
        """See WorkerHandle."""
        if self.pipe is not None:
            self.pipe.send(message)

    def hung_up(self) -> bool:
        """See WorkerHandle. Ray knows why, but only a moment later."""
        self._hung_up = time.monotonic()
        return self._ended is not None

    def exit_word(self) -> str | None:
        """See WorkerHandle."""
        given_up = self._hung_up is not None and time.monotonic() > self._hung_up + _TELLING_S
        if self._ended is None and given_up:
            why = "Ray cannot reach it either: is its node down?" if self._unreachable else ""
            self._ended = f"lost its connection to the driver ({why or 'Ray does not say why'})"
        return self._ended

    def take(self, pipe: DriverChannel) -> None:
        """The worker has come in."""
        self.pipe, self.connected = pipe, True

    def ended(self) -> None:
        """Ray says that the call is over: note how."""
        try:
            ray.get(self.serving)
            self._ended = self._ended or "left"
        except ray.exceptions.ActorUnavailableError:
            # Ray cannot reach it, and does not know yet whether it is dead: ask once more
            self._hung_up, self._unreachable = self._hung_up or time.monotonic(), True
            self.serving = self._actor.__ray_ready__.remote()
        except Exception as error:
            self._ended = self._ended or death_in_words(error)

    def kill(self) -> None:
        """See WorkerHandle."""
        self.close()
        self.killed = True
        with contextlib.suppress(Exception):  # it is gone already, or Ray is
            ray.kill(self._actor, no_restart=True)

    def close(self) -> None:
        """See WorkerHandle."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe = None

    def join(self, timeout_s: float) -> None:
        """See WorkerHandle."""
        if self.connected and not self.killed:
            with contextlib.suppress(Exception):  # as in kill
                ray.wait([self.serving], timeout=timeout_s)
        self.kill()


class RaySite:
    """Starts workers as actors.

    Parameters
    ----------
    cluster:
        Connected to.
    code:
        The user's code, pickled.
    files:
        Folder for what the workers write, where they see it.
    threads:
        For each worker.
    """

    def __init__(self, cluster: RayCluster, code: bytes, files: Path, threads: int) -> None:
        self._cluster, self._threads = cluster, threads
        self._files = files.resolve()
        self._mark = self._leave_mark()
        # once a node, not once a worker; workers read an array where it lies, and would copy bytes
        self._code = ray.put(np.frombuffer(code, "u1"))
        self._listener = ConnectionListener(cluster.host)
        self._actor = ray.remote(max_restarts=0, max_task_retries=0)(AcetuneWorker)
        self._workers: list[RayWorker] = []
        self._last_look = 0.0
        self._patience_s = _NO_ROOM_S if cluster.can_ever_fit() else 0.0
        self._notices: list[str] = []
        self._notice = SayOnce(self._notices.append)

    @property
    def bell(self) -> int:
        """See Site."""
        return self._listener.bell

    def start(self, index: int) -> RayWorker:
        """See Site. Ray places the actor as soon as a node has room for it."""
        card = self._listener.new_pass()
        setup = Setup(str(self._files), None, self._threads)
        environment = {"env_vars": worker_variables(self._threads)}
        options = self._cluster.options()
        actor = self._actor.options(**options, runtime_env=environment).remote()
        serving = actor.serve.remote(card, setup, module_path(), self._mark, self._code)
        worker = RayWorker(actor, serving, card.token)
        self._workers.append(worker)
        return worker

    def look(self) -> list[tuple[RayWorker, Notice | None]]:
        """See Site."""
        found: list[tuple[RayWorker, Notice | None]] = []
        for token, pipe in self._listener.collect():
            worker = next((w for w in self._workers if w.token == token and not w.killed), None)
            if worker is None:
                pipe.close()  # it was given up meanwhile
            else:
                worker.take(pipe)
                found.append((worker, None))
        now = time.monotonic()
        if now > self._last_look + _LOOK_S:
            self._last_look = now
            self._workers = [worker for worker in self._workers if not worker.killed]
            self._look_at_calls()
            found += self._look_for_room(now)
        return found

    def _look_at_calls(self) -> None:
        """A worker whose node has vanished does not close its connection: Ray knows."""
        serving = {worker.serving: worker for worker in self._workers}
        if serving:
            over, _ = ray.wait(list(serving), num_returns=len(serving), timeout=0)
            for call in over:
                serving[call].ended()

    def _look_for_room(self, now: float) -> list[tuple[RayWorker, Notice | None]]:
        waiting = [w for w in self._workers if not w.connected and w.exit_word() is None]
        late = [worker for worker in waiting if now > worker.started + self._patience_s]
        if late:
            self._notice(self._no_room(len(waiting)), about="room")
        found: list[tuple[RayWorker, Notice | None]] = []
        found += [(late[0], Notice(text)) for text in self._notices]
        self._notices.clear()
        return found

    def _no_room(self, waiting: int) -> str:
        cluster = self._cluster
        text = (
            f"{waiting} {'worker waits' if waiting == 1 else 'workers wait'} for room in "
            f"the Ray cluster: each asks for {cluster.asked}, and {cluster.free()} is free now"
        )
        if not cluster.can_ever_fit():
            text += "; no node is large enough: add one, or ask for less with resources={...}"
        return text

    def close(self) -> None:
        """See Site."""
        self._listener.close()
        with contextlib.suppress(OSError):
            (self._files / self._mark).unlink()

    def _leave_mark(self) -> str:
        """The name of a new file by which workers know the study's folder."""
        self._files.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in self._files.glob(".acetune-*"):  # of a driver that was killed
            old.unlink(missing_ok=True)
        mark = f".acetune-{secrets.token_hex(8)}"
        (self._files / mark).touch()
        return mark


def death_in_words(error: Exception) -> str:
    """What Ray says about the end of an actor, in a few words after 'its worker process'."""
    text = str(error)
    if isinstance(error, ray.exceptions.RayTaskError):  # raised in the worker itself
        return f"ended with {type(error.cause).__name__}: {error.cause}"
    where = re.search(r"\bip: (\S+)", text)
    node = f" on {where[1]}" if where else ""
    if "OUT_OF_MEMORY" in text or isinstance(error, ray.exceptions.OutOfMemoryError):
        return f"was ended by Ray: its node{node} ran out of memory"
    if re.search(r"node (has died|was dead|failed|.*terminated|.*preempted)", text, re.IGNORECASE):
        return f"was lost with its node{node}"
    if "worker process has died" in text:
        return f"died{node} (exited, crashed, killed or out of memory)"
    if "ray.kill" in text:
        return f"was ended with ray.kill{node}"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f"was lost ({type(error).__name__}: {lines[-1] if lines else 'no reason given'})"
