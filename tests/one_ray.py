"""Ray in this process: one at a time, and only where a test asks for one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def one_ray(address: str = "local", **options: Any) -> Iterator[None]:
    """A Ray of one's own, or the one at an address.

    One that is still running in this process, for whatever reason, is left first: starting another
    would be an error in tests that have nothing to do with it.
    """
    import ray

    if ray.is_initialized():
        ray.shutdown()
    if address == "local":  # whatever else is running on this machine
        options = {"include_dashboard": False, **options}
    ray.init(address, log_to_driver=False, logging_level="ERROR", **options)
    try:
        yield
    finally:
        ray.shutdown()
