"""Workers as processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from acetune.run._messages import Setup
from acetune.run._pool import Site
from acetune.run._ray_cluster import RayCluster
from acetune.run._settings import Settings
from acetune.run._worker_process import WorkerProcess
from acetune.trial.hardware import available_cores as available_cores  # also for those above


class LocalSite:
    """Starts worker processes on this machine.

    Parameters
    ----------
    code:
        The user's code, pickled.
    files:
        Folder for what the workers write.
    threads, devices:
        How many threads for each, and the devices that are shared out.
    """

    bell = None

    def __init__(self, code: bytes, files: Path, threads: int, devices: Sequence[str]) -> None:
        self._files = files.resolve()
        self._files.mkdir(parents=True, exist_ok=True)
        # through a file: a large one would fill the pipe, and the driver wait for slow starters
        self._code = self._files / "code.pkl"
        self._code.unlink(missing_ok=True)  # were it a link, some other file would be overwritten
        self._code.write_bytes(code)
        self._threads, self._devices = threads, devices

    def start(self, index: int) -> WorkerProcess:
        """See Site."""
        device = self._devices[index % len(self._devices)] if self._devices else None
        setup = Setup(str(self._files), device, self._threads)
        return WorkerProcess(setup, self._code, self._files / f"worker-{index}.log")

    def look(self) -> tuple[()]:
        """See Site."""
        return ()

    def close(self) -> None:
        """See Site."""


def default_threads(workers: int) -> int:
    """What OMP_NUM_THREADS says, or else an equal share of the cores this process may use."""
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) else max(1, available_cores() // workers)


def make_site(cluster: RayCluster | None, code: bytes, files: Path, settings: Settings) -> Site:
    """Where the workers of a study live."""
    if cluster is None:
        return LocalSite(code, files, settings.threads, settings.devices)
    from acetune.run._ray_workers import RaySite  # imports Ray

    return RaySite(cluster, code, files, settings.threads)
