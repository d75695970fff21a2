"""The same as with workers of this machine, with workers of Ray's."""

from __future__ import annotations

import functools

from tools.chaos import ray_cluster
from tools.chaos.campaign import Part
from tools.chaos.local_kills import kills

PART = Part(
    promise="The same with `engine='ray'`.",
    how="The same on a Ray of this machine; workers are the processes that have reported.",
    round=functools.partial(
        kills, events=8, trials=(20, 40), in_ray=ray_cluster.address, pause_s=(0.1, 0.6)
    ),
    rounds=40,
    limit_s=900,
)
