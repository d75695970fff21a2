"""One Ray for all tests here: starting it takes six seconds."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="package")
def local_ray() -> Iterator[None]:
    # workers import the trainables of the tests
    given = os.environ.get("PYTHONPATH")  # where the sources are, if not installed from here
    tests = str(Path(__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [tests, given]))
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"  # else Ray warns of a change to come
    with warnings.catch_warnings(action="ignore"):
        import ray

        ray.init(
            address="local",  # whatever else is running here
            num_cpus=4,
            num_gpus=1,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
        )
        yield
        ray.shutdown()
