"""One Ray for all rounds of this process, which ends with it."""

from __future__ import annotations

import atexit
import functools
import os

from tools.chaos.campaign import SkippedError
from tools.chaos.processes import module_path

CPUS = 3


@functools.cache
def address() -> str:
    """Where it listens; it is started by the first who asks."""
    os.environ["PYTHONPATH"] = module_path()  # its workers import the helpers of the tests
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    try:
        from ray.cluster_utils import Cluster
    except ModuleNotFoundError:
        raise SkippedError("Ray is not installed") from None
    options = {"num_cpus": CPUS, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=options)
    atexit.register(cluster.shutdown)
    return str(cluster.address)
