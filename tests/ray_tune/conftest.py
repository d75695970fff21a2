"""One Ray for all tests here: starting it takes six seconds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from one_ray import one_ray


@pytest.fixture(scope="package")
def local_ray() -> Iterator[None]:
    # workers import the trainables of the tests
    given = os.environ.get("PYTHONPATH")  # where the sources are, if not installed from here
    tests = str(Path(__file__).parent.parent)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(action="ignore"):
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [tests, given])))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else Ray warns of a change
        with one_ray(num_cpus=4, num_gpus=1):
            yield
