"""The machine that a process runs on: what it is, and a clock that waits for its GPU."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

# the thread pools that numerical libraries start on their own
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def thread_variables(threads: int) -> dict[str, str]:
    """The environment in which numerical libraries use so many threads."""
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


def gpu_variables(name: str) -> dict[str, str]:
    """The environment in which a process sees one GPU alone, by its physical name."""
    return {_VISIBLE: name}


def synchronised_clock() -> float:
    """Seconds; a GPU in use is waited for first, so that its work is counted where it belongs."""
    synchroniser()()
    return time.perf_counter()


def synchroniser() -> Callable[[], object]:
    """What waits for the GPU that PyTorch uses in this process; nothing where it uses none."""
    torch = _torch_on_gpu()
    wait: Callable[[], object] = torch.cuda.synchronize if torch is not None else lambda: None
    return wait


def available_cores() -> int:
    """The cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def missing_cores(cores: Iterable[int]) -> list[int]:
    """Those of some cores that this process could not use, even if it had not left them before."""
    missing: list[int] = []

    def try_them() -> None:
        for core in sorted(cores):
            try:
                os.sched_setaffinity(0, {core})  # of this thread alone
            except (OSError, OverflowError):
                missing.append(core)

    thread = threading.Thread(target=try_them)
    thread.start()
    thread.join()
    return missing


def describe_hardware() -> str:
    """What this process runs on, in a line: processor, cores, threads (if told), GPU in use."""
    parts = [processor(), f"{available_cores()} of {os.cpu_count()} cores"]
    threads = os.environ.get(THREAD_VARIABLES[0])
    if threads:
        parts.append(f"{threads} thread{'' if threads == '1' else 's'}")
    torch = _torch_on_gpu()
    if torch is not None:
        parts.append(str(torch.cuda.get_device_name()))
    elif os.environ.get(_VISIBLE):
        parts.append(f"GPU {os.environ[_VISIBLE]}, not used by PyTorch so far")
    return ", ".join(parts)


@functools.cache
def processor() -> str:
    """The model of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    except OSError:
        pass
    import platform  # only where it is asked: a worker starts faster

    return platform.processor() or platform.machine() or "unknown processor"


def visible_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The GPUs that a process was given, by their physical names; empty where all are."""
    return [name.strip() for name in environment.get(_VISIBLE, "").split(",") if name.strip()]


def physical_gpu(device: str, environment: Mapping[str, str] = os.environ) -> str:
    """``cuda:1``, or 1, as the machine names it: a number counts among those one was given.

    >>> physical_gpu("cuda:1", {"CUDA_VISIBLE_DEVICES": "4,6"})
    '6'
    >>> physical_gpu("cuda", {})
    '0'
    """
    name = device.removeprefix("cuda").removeprefix(":") or "0"
    given = visible_gpus(environment)
    if given and name.isdigit() and int(name) < len(given):
        return given[int(name)]
    return name


def gpu_in_use() -> bool:
    """Whether PyTorch uses a GPU in this process."""
    return _torch_on_gpu() is not None


def _torch_on_gpu() -> Any:
    torch = sys.modules.get("torch")
    # while torch itself is being imported it has no such part yet
    cuda = getattr(torch, "cuda", None)
    return torch if cuda is not None and cuda.is_initialized() else None
