"""A link through which a trial makes way for checks that are measured alone.

The trial itself knows nothing of that. Its devices are in use (see ``exclusive.py``) while it
trains, and free while it waits for its engine: the engine may be measuring, or wait for somebody
who is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from acetune.policies.policy import Due
from acetune.trial.exclusive import DeviceNeeds, DeviceUse, alone
from acetune.trial.link import Link, Plan, Reply, Report

_NOTHING = DeviceNeeds()


class ExclusiveLink(Link):
    """Wraps the link of an engine. Where no check is measured alone, nothing is locked.

    A check may come with any report, so engines wrap every link.

    Parameters
    ----------
    link:
        To the engine.
    device:
        The device that this process was given, or None.
    needs:
        Of checks that the engine makes itself. May wait for one of them.
    """

    def __init__(
        self, link: Link, device: str | None = None, needs: DeviceNeeds = _NOTHING
    ) -> None:
        self._link = link
        self._use = DeviceUse(device)
        self._use.make_way(needs)

    # -- for engines -----------------------------------------------------------------------------

    def pause(self) -> None:
        """Nothing is trained for now: who wants to measure alone need not wait."""
        self._use.leave()

    def go_on(self) -> None:
        """Training goes on; waits while somebody measures."""
        self._use.enter()

    # -- the protocol ----------------------------------------------------------------------------
    # Where the engine raises, the trial has ended: its devices stay free.

    def expect(self, checks: Iterable[Any]) -> None:
        """See Link. May wait."""
        self._use.expect(checks)

    def measuring(self, check: Callable[..., Any]) -> AbstractContextManager[None]:
        """See Link. To wait for being alone is no cost of the check, and no timeout runs."""
        return alone(check)

    def begin(self, total_steps: int | None, startup_s: float) -> Plan:
        """See Link."""
        self.pause()
        plan = self._link.begin(total_steps, startup_s)
        self.go_on()
        return plan

    def declare(self, total_steps: int) -> None:
        """See Link."""
        self.pause()
        self._link.declare(total_steps)
        self.go_on()

    def note_hardware(self, description: str) -> None:
        """See Link."""
        self._link.note_hardware(description)

    def fresh_gate(self, report: Report) -> float:
        """See Link."""
        self.pause()
        gate = self._link.fresh_gate(report)
        self.go_on()
        return gate

    def checking(self, constraint: str | None) -> None:
        """See Link."""
        self._link.checking(constraint)

    def judged(self, due: Due, valid: bool | None) -> None:
        """See Link."""
        self._link.judged(due, valid)

    def report(self, report: Report) -> Reply:
        """See Link. By now training has taken a GPU, if it does: the hardware can be told."""
        hardware = self._use.untold_hardware()
        if hardware is not None:
            self.note_hardware(hardware)
        self.pause()
        reply = self._link.report(self._with_wait(report))
        if not (reply.stop or reply.ended):
            self.go_on()
        return reply

    def finish(self, report: Report | None) -> None:
        """See Link."""
        self.pause()
        self._link.finish(None if report is None else self._with_wait(report))

    def _with_wait(self, report: Report) -> Report:
        """What was waited since the last report is no cost of training or checks."""
        waited = self._use.take_waited()
        return report._replace(waited_s=waited) if waited else report

    # Writing is work like training: who measures is not to be disturbed by it. A link that waits
    # for the engine to take what it sends pauses for that itself.

    def keep_model(self, step: int, model: object) -> None:
        """See Link."""
        self._link.keep_model(step, model)

    def keep_checkpoint(self, step: int, source: Callable[[Path], object] | Path) -> None:
        """See Link."""
        self._link.keep_checkpoint(step, source)

    def close(self) -> None:
        """See Link."""
        self.pause()
        self._link.close()
