"""Checks that draw random numbers do not change the training that they look at."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def same_randomness() -> Iterator[None]:
    """Afterwards the global generators stand where they stood before.

    When a check is made depends on what checks cost: without this, so would the curves of a seeded
    training. Python's generator, NumPy's and PyTorch's (on the CPU and the current GPU).

    >>> random.seed(0)
    >>> with same_randomness():
    ...     inside = random.random()
    >>> random.random() == inside
    True
    """
    torch = sys.modules.get("torch")
    gpu = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    python, numpy = random.getstate(), np.random.get_state()
    on_cpu = None if torch is None else torch.get_rng_state()
    on_gpu = torch.cuda.get_rng_state() if torch is not None and gpu else None
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
        if torch is not None:
            torch.set_rng_state(on_cpu)
            if on_gpu is not None:
                torch.cuda.set_rng_state(on_gpu)
