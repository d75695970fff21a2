"""Some checks are measured alone: one at a time on a device, while the trials there wait.

Who waits for whom is told by kernel locks on files, two a device: a *turnstile* and a *room*. A
trial is in the room (a shared lock) while it trains; at each report it leaves, and comes back
through the turnstile (shared, for a moment). A measurement takes the turnstile (exclusive: nobody
comes in any more), then the room (exclusive: everybody has left), and gives both back when it has
ended. Every process that trains on this machine takes part, of whatever study and engine, and the
kernel frees what a process held that was killed.

No two wait for each other: everybody takes locks in the same order (the processor before a GPU,
the turnstile of a device before its room), and a trial that waits for a turnstile has left the
rooms that come after it. Nor does a trial wait for its engine while it is in a room: that may be
measuring itself, a limit on the configuration alone. A thread trains one trial at a time: a trial
that begins or reports takes the place of the one that its thread trained before, however that one
has ended.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from acetune.core.errors import GoalError
from acetune.trial.device_locks import DeviceLocks
from acetune.trial.hardware import describe_hardware, gpu_in_use, physical_gpu, visible_gpus

CPU = "cpu"


class _Here(threading.local):
    """What this thread trains, whether it measures alone just now, what ends its waits to do so."""

    use: weakref.ref[DeviceUse] | None = None
    alone: bool = False
    give_up: Callable[[], bool] | None = None


_here = _Here()


# -- what checks ask for -------------------------------------------------------------------------


def measured_alone(check: object) -> bool:
    """Whether the trials on a device wait while this is measured there."""
    return bool(getattr(check, "measured_alone", False))


def measured_on_reserved(check: object) -> bool:
    """Whether this is measured on a device that no trial uses."""
    return isinstance(getattr(check, "aside", None), (frozenset, str))


@dataclass(frozen=True, slots=True)
class DeviceNeeds:
    """What is asked of trials by checks that somebody else makes: the driver, of configurations.

    The checks themselves may not be fit to be sent to where trials are trained.
    """

    devices: frozenset[str] = frozenset()  # where they are measured alone
    reserved: frozenset[frozenset[int] | str] = frozenset()


def needs_of(checks: Iterable[Any]) -> DeviceNeeds:
    """What checks that are made in this process ask of trials that are trained in others."""
    devices: set[str] = set()
    reserved: set[frozenset[int] | str] = set()
    for check in checks:
        if measured_alone(check):
            devices |= {CPU, *_devices_of(check, [])}
        elif measured_on_reserved(check):
            reserved.add(check.aside)
    return DeviceNeeds(frozenset(devices), frozenset(reserved))


def hardware_for(checks: Iterable[Any]) -> str | None:
    """What these checks are measured on in this process, in words; None where it is no matter."""
    needs = needs_of(checks)
    return _hardware_with(needs.reserved) if needs.devices or needs.reserved else None


class DeviceUse:
    """What a trial does so that others can measure alone: nothing, unless a check asks for it.

    Parameters
    ----------
    device:
        The device that its process was given, or None. Whatever trains uses the processor too.
    """

    def __init__(self, device: str | None = None) -> None:
        gpus = [] if device in (None, CPU) else visible_gpus() or [physical_gpu(str(device))]
        self.own = [f"gpu-{name}" for name in gpus] or [CPU]
        self._devices: list[DeviceLocks] = []
        self.inside = False  # whether a measurement would wait for this trial
        self._reserved: set[frozenset[int] | str] = set()
        self._measured_on: set[str] = set()  # by checks of its own, or used meanwhile
        self._hardware_matters = False  # to a check that has come up
        self._waited_s = 0.0  # since somebody has asked for it

    def expect(self, checks: Iterable[Any]) -> None:
        """These checks may be made: from now on the trial is where they want it to be."""
        devices: set[str] = set()
        for check in checks:
            if measured_alone(check):
                devices |= {CPU, *self.own, *_devices_of(check, self.own)}
            elif measured_on_reserved(check) and check.aside not in self._reserved:
                self._reserved.add(check.aside)
                self._hardware_matters = True
                _keep_off(check.aside)
        if not devices <= self._measured_on:
            self._measured_on |= devices
            self._hardware_matters = True
        self._be_on(devices)

    def make_way(self, needs: DeviceNeeds) -> None:
        """Others make such checks: from now on the trial keeps out of their way."""
        for reserved in needs.reserved:
            _keep_off(reserved)
        if needs.devices:
            self._be_on({CPU, *self.own, *needs.devices})

    def _be_on(self, devices: set[str]) -> None:
        """Be in the rooms of these devices too."""
        devices = devices | {device.name for device in self._devices}
        if len(devices) > len(self._devices):
            self.leave()
            self._devices = [DeviceLocks(name) for name in sorted(devices, key=_order)]
            self.enter()

    def enter(self) -> None:
        """Training goes on; waits while somebody measures."""
        if not self._devices:
            return
        before = None if _here.use is None else _here.use()
        if before is not None and before is not self:
            before.leave()
        _here.use = weakref.ref(self)
        if not self.inside:
            self.inside = True
            with self.waiting():
                for device in self._devices:
                    device.enter()

    def leave(self) -> None:
        """Training pauses, or has ended: others may measure."""
        self.inside = False
        for device in self._devices:
            device.leave()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Within this the trial waits for others, who measure or train."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._waited_s += time.monotonic() - began

    def take_waited(self) -> float:
        """Seconds that it has waited since the last time."""
        waited, self._waited_s = self._waited_s, 0.0
        return waited

    def untold_hardware(self) -> str | None:
        """What is measured on, in words; None where it does not matter, or was told before."""
        if not self._hardware_matters:
            return None
        self._hardware_matters = False
        return _hardware_with(self._reserved)

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Within this the trial that this thread trains is in no room, so that it may wait."""
    use = None if _here.use is None else _here.use()
    if use is None or not use.inside:
        yield
        return
    use.leave()
    try:
        yield
    finally:
        use.enter()


@contextlib.contextmanager
def waiting_until(give_up: Callable[[], bool] | None) -> Iterator[None]:
    """Within this, to wait for being alone ends with an error as soon as ``give_up`` says so.

    The error is :class:`~acetune.trial.device_locks.GivenUpError`. It is not the business of a
    check, which may call for being alone itself, to know about that.
    """
    before, _here.give_up = _here.give_up, give_up
    try:
        yield
    finally:
        _here.give_up = before


@contextlib.contextmanager
def alone(check: object) -> Iterator[None]:
    """Within this nobody else trains where ``check`` is measured, or measures there.

    The check of a trial is measured on the device of the trial that this thread trains, unless it
    says otherwise. Within itself it does nothing.
    """
    if _here.alone or not (measured_alone(check) or measured_on_reserved(check)):
        yield
        return
    use = None if _here.use is None else _here.use()
    resting = use if use is not None and use.inside and measured_alone(check) else None
    if resting is not None:
        resting.leave()
    if use is None:
        use = DeviceUse("cuda" if gpu_in_use() else None)
    devices, host = _measured_on(check, use.own)
    _here.alone = True
    try:
        with use.waiting():
            if host is not None:
                host.enter(_here.give_up)
            for device in devices:
                device.empty(_here.give_up)
        yield
    finally:
        _here.alone = False
        for device in [*devices, *([] if host is None else [host])]:
            device.leave()
        if resting is not None:
            resting.enter()


def _measured_on(check: object, own: list[str]) -> tuple[list[DeviceLocks], DeviceLocks | None]:
    """What nobody else may use meanwhile, in order; and the processor, where others may use it."""
    if not measured_alone(check):
        return [DeviceLocks(name) for name in _reserved_names(check)], None
    names = sorted(_devices_of(check, own), key=_order)
    # what runs on a GPU uses the processor too, as any trial does: nobody measures there meanwhile
    return [DeviceLocks(name) for name in names], None if CPU in names else DeviceLocks(CPU)


def _devices_of(check: object, own: list[str]) -> list[str]:
    device = getattr(check, "device", None)
    if device is None:
        return own
    return [CPU] if str(device) == CPU else [f"gpu-{physical_gpu(str(device))}"]


def _order(name: str) -> tuple[bool, str]:
    return name != CPU, name


# -- devices set aside ---------------------------------------------------------------------------


def described(reserved: frozenset[int] | str) -> str:
    """A device that is set aside, in words."""
    if isinstance(reserved, str):
        return f"GPU {reserved}"
    return f"core{'' if len(reserved) == 1 else 's'} {', '.join(map(str, sorted(reserved)))}"


def _hardware_with(reserved: Iterable[frozenset[int] | str]) -> str:
    return "; ".join(
        [describe_hardware(), *(f"set aside: {described(found)}" for found in reserved)]
    )


def _reserved_names(check: Any) -> list[str]:
    reserved = check.aside
    if isinstance(reserved, str):
        return [f"aside-gpu-{reserved}"]
    return [f"aside-core-{core}" for core in sorted(reserved)]


def _keep_off(reserved: frozenset[int] | str) -> None:
    """Take the cores that are set aside from this process, which trains."""
    if isinstance(reserved, str):
        return
    if not hasattr(os, "sched_setaffinity"):
        raise GoalError(f"cores {sorted(reserved)} cannot be set aside: only Linux can do that")
    left = os.sched_getaffinity(0) - reserved
    if not left:
        raise GoalError(
            f"cores {sorted(reserved)} are set aside, and this process has no other to train on; "
            "give fewer"
        )
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # one that has just ended
            os.sched_setaffinity(int(thread.name), left)


def _forget_in_child() -> None:
    _here.use, _here.alone, _here.give_up = None, False, None


os.register_at_fork(after_in_child=_forget_in_child)
