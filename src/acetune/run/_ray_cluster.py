"""A Ray cluster as the engine needs it: connected to, and measured in workers that fit."""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections.abc import Iterable, Mapping
from typing import Any

from acetune.core.errors import GoalError, StudyError
from acetune.core.import_on_use import import_extra
from acetune.core.numbers import is_number

_REACH_S = 5.0
_NOT_FROM_OUTSIDE = (
    "{}; workers connect to the driver, so run the study on a machine of the cluster, for example "
    "with  ray job submit"
)
_NAMES = {"cpu": "CPU", "gpu": "GPU"}  # ours and Ray's


class RayCluster:
    """The cluster that a study runs on, for as long as a ``with`` block lasts.

    Ray that is initialised already is used as it is, and left running.

    Parameters
    ----------
    address:
        Of a running cluster, or ``"auto"`` for the one that this machine belongs to. None: the
        one in RAY_ADDRESS, as in a job of a cluster, or else a new one on this machine.
    resources:
        What each worker gets, such as ``{"cpu": 2, "gpu": 0.5}``; one CPU by default.
    """

    def __init__(self, address: str | None, resources: Mapping[str, float] | None) -> None:
        # Ray's own default would join any cluster that happens to run on this machine
        self._address = address or os.environ.get("RAY_ADDRESS") or "local"
        if not isinstance(self._address, str) or "://" in self._address:
            wrong = "ray_address (or RAY_ADDRESS) must be 'auto' or the host:port of a cluster, got"
            raise GoalError(_NOT_FROM_OUTSIDE.format(f"{wrong} {self._address!r}"))
        self.resources = _require_resources(resources)
        self._ours = False  # connected to by us
        self._ray = import_extra("ray", "Ray", "ray")
        import_extra("ray.util.client", "Ray", "ray")

    def __enter__(self) -> RayCluster:
        if self._ray.util.client.ray.is_connected():
            raise GoalError(_NOT_FROM_OUTSIDE.format("Ray is initialised as a client (ray://)"))
        if not self._ray.is_initialized():
            self._connect()
            self._ours = True
        try:
            if self._new and not self.can_ever_fit():
                raise GoalError(
                    f"no worker with {self.asked} fits this machine, which has "
                    f"{in_words(self._ray.cluster_resources())}; ask for less with "
                    "resources={...}, or start Ray yourself with what you need before the study"
                )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._ours:
            self._ray.shutdown()

    def _connect(self) -> None:
        try:
            if ":" in self._address:
                # Ray itself would try for minutes
                host, _, port = self._address.rpartition(":")
                socket.create_connection((host.strip("[]"), int(port)), _REACH_S).close()
            self._ray.init(
                address=self._address,
                log_to_driver=False,  # what workers print is in the logs of their trials
                logging_level=logging.ERROR,
                include_dashboard=False,
            )
        except (ConnectionError, OSError, RuntimeError, ValueError) as error:
            raise StudyError(
                f"cannot connect to Ray at {self._address!r}: {str(error).strip()}; look whether "
                "it runs there with  ray status  and start it with  ray start --head"
            ) from None

    @property
    def _new(self) -> bool:
        """Whether it was started for this study, and so has nobody else and cannot grow."""
        return self._ours and self._address == "local"

    @property
    def host(self) -> str:
        """Where workers reach this process."""
        if self._new:
            return "127.0.0.1"
        return str(self._ray.util.get_node_ip_address())

    @property
    def asked(self) -> str:
        """What each worker gets, in words."""
        return in_words(self.resources)

    @property
    def threads(self) -> int:
        """Threads for a worker: its CPUs, at least one."""
        return max(1, int(self.resources["cpu"]))

    def fits(self) -> int:
        """How many workers have room now; at least one."""
        count = self._room(self._nodes())
        if not self._new:  # others may use it too
            count = min(count, self._room([self._ray.available_resources()]))
        return max(1, count)

    def can_ever_fit(self) -> bool:
        """Whether some node could hold a worker if it were empty."""
        return self._room(self._nodes()) > 0

    def free(self) -> str:
        """What nobody uses now, in words."""
        return in_words(self._ray.available_resources())

    def reduce(self, found: object) -> Any:
        """How Ray's own objects are pickled, so that training code can ``ray.get`` them.

        Without their owner, which Ray's pickle knows to add, that would wait for ever.
        """
        if isinstance(found, (self._ray.ObjectRef, self._ray.actor.ActorHandle)):
            return pickle.loads, (self._ray.cloudpickle.dumps(found),)
        return NotImplemented

    def options(self) -> dict[str, Any]:
        """The resources as options of an actor."""
        others = dict(self.resources)
        named = {"num_cpus": others.pop("cpu"), "num_gpus": others.pop("gpu", 0)}
        if "memory" in others:
            named["memory"] = others.pop("memory")
        return {**named, "resources": others}

    def _nodes(self) -> list[Mapping[str, float]]:
        return [node["Resources"] for node in self._ray.nodes() if node["Alive"]]

    def _room(self, nodes: Iterable[Mapping[str, float]]) -> int:
        return sum(room(node, self.resources) for node in nodes)


def room(has: Mapping[str, float], asked: Mapping[str, float]) -> int:
    """How many workers fit a node. A part of a GPU is a part of one GPU."""
    counts = []
    for name, need in asked.items():
        available = has.get(_NAMES.get(name, name), 0.0)
        if name == "gpu" and 0 < need < 1:
            counts.append(int(available + 1e-9) * int(1 / need + 1e-9))
        elif need:
            counts.append(int(available / need + 1e-9))
    return min(counts)


def in_words(resources: Mapping[str, float]) -> str:
    """Resources as a person writes them: ``2 cpu, 0.5 gpu``."""
    ours = {theirs: name for name, theirs in _NAMES.items()}
    shown = []
    for name, amount in resources.items():
        if "memory" in name and amount:
            shown.append(f"{amount / 2**30:.3g} GiB {name}")
        elif amount and not name.startswith("node:"):  # Ray's own marks of each node
            shown.append(f"{amount:g} {ours.get(name, name)}")
    return ", ".join(shown) or "nothing"


def _require_resources(resources: Mapping[str, float] | None) -> dict[str, float]:
    if resources is None:
        return {"cpu": 1}
    if not isinstance(resources, Mapping):
        raise GoalError(
            f'resources must be a dict such as {{"cpu": 2, "gpu": 0.5}}, got {resources!r}'
        )
    asked: dict[str, float] = {"cpu": 1}
    for name, amount in resources.items():
        if not isinstance(name, str) or not name or name == "object_store_memory":
            raise GoalError(f"resources has no kind {name!r}; use cpu, gpu, memory or your own")
        if name in ("num_cpus", "num_gpus"):
            raise GoalError(f"resources are named cpu and gpu here, got {name!r}")
        if not is_number(amount) or amount < 0:
            raise GoalError(f"resources[{name!r}] must be a number >= 0, got {amount!r}")
        if amount > 1 and amount != int(amount):
            raise GoalError(f"resources[{name!r}] above 1 must be a whole number, got {amount!r}")
        if 0 < amount < 1e-4:
            raise GoalError(f"resources[{name!r}] must be 0, or at least 0.0001, got {amount!r}")
        asked[name.lower() if name in ("CPU", "GPU") else name] = amount
    if not any(asked.values()):
        raise GoalError(f"resources must ask for something, got {dict(resources)!r}")
    return asked
