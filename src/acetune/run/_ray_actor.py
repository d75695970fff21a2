"""A worker in a Ray cluster: the body of an actor, which connects back to the driver.

Ray gives each of its worker processes a process group of its own and ends the whole group with the
process, so that what the training code has forked does not outlive it.
"""

from __future__ import annotations

import pickle
import select
import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import ray

from acetune.interprocess.child import end_at_once
from acetune.run._messages import Notice, Setup
from acetune.run._ray_connections import Pass, enter
from acetune.run._worker_main import serve

_GRACE_S = 1.0


class AcetuneWorker:
    """What Ray makes an actor of: one long call for the whole life of a worker."""

    def serve(self, card: Pass, setup: Setup, path: list[str], mark: str, code: Any) -> None:
        """Work for the driver until it says good-bye, or is gone.

        ``path`` is where the driver finds modules. ``mark`` is the name of a file that it has put
        into the study's folder: a worker that does not find it there looks at another folder, or at
        none. ``code`` is an array of bytes.
        """
        sys.path[:] = _import_path(path)
        device = "cuda:0" if ray.get_gpu_ids() else None
        try:
            pipe = enter(card)
        except OSError as error:
            host, port = card.address
            raise ConnectionError(
                f"{socket.gethostname()} cannot reach the driver at {host}:{port} ({error}); the "
                "machines of the cluster must let each other connect, on any port"
            ) from error
        leaving = threading.Event()
        watch = threading.Thread(
            target=_die_with_driver, args=(pipe.fileno(), leaving), daemon=True
        )
        watch.start()
        try:
            if not _is_there(Path(setup.files) / mark):
                here = Path(tempfile.gettempdir()) / f"acetune-{mark.strip('.')}"
                text = (
                    f"{socket.gethostname()} does not see {setup.files}: models and checkpoints "
                    f"are sent over the network; logs of its trials are there in {here}"
                )
                pipe.send(Notice(text))
                here.mkdir(mode=0o700, exist_ok=True)
                setup = setup._replace(files=str(here), sees_files=False)
            serve(pipe, setup._replace(device=device), lambda: pickle.loads(code))
        finally:
            leaving.set()
            watch.join()  # before the number of the pipe can become that of another file
            pipe.close()


def _is_there(path: Path) -> bool:
    """Whether this process can see a file: it may not look into the folder of another user."""
    try:
        return path.exists()
    except OSError:
        return False


def _import_path(drivers: list[str]) -> list[str]:
    """Where the driver finds modules, as far as that exists here; then where Ray does."""
    found = [entry for entry in drivers if Path(entry).exists()]
    return [*found, *(entry for entry in sys.path if entry not in found)]


def _die_with_driver(descriptor: int, leaving: threading.Event) -> None:
    """A driver that is gone cannot say so: watch its connection, and end the whole group."""
    watched = select.poll()
    watched.register(descriptor, getattr(select, "POLLRDHUP", 0))
    while not leaving.is_set():
        if watched.poll(200):
            # one that only waits for work sees the end itself, and leaves in good order
            if not leaving.wait(_GRACE_S):
                end_at_once()
            return
