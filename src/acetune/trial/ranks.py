"""One trial on several ranks: rank 0 decides, and all ranks stop together.

Every rank of a data-parallel training runs the same loop. Rank 0 holds the trial; what became of
each of its calls goes to the others in one broadcast, also where the call does not return: Ray Tune
stops a trial inside ``report``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, Never, TypeAlias

from acetune.core.decision import Action, Decision
from acetune.core.errors import ReportError, TrialStopped
from acetune.core.import_on_use import import_extra
from acetune.trial.trial import Trial

__all__ = ["Broadcast", "SharedTrial", "torch_broadcast"]

Broadcast: TypeAlias = Callable[[Any], Any]
_Call: TypeAlias = Literal["SharedTrial()", "steps()", "report()", "declare()"]


class _Word(NamedTuple):
    """What rank 0 tells the others after each call."""

    call: _Call
    content: Any = None
    stop: bool = False
    reason: str = ""  # why it stops, or the error
    failed: bool = False
    last_step: int = 0
    total_steps: int | None = None


class SharedTrial:
    """A trial that all ranks of a training share. Every rank makes the same calls::

        trial = acetune.ray.trial(total_steps=20, params=config) if rank == 0 else None
        shared = SharedTrial(trial, torch_broadcast())
        model = Model(**shared.params)
        for step in shared.steps():  # ends at the same step on all ranks
            loss = train_one_epoch(model)
            shared.report(loss=loss, model=model)
        if trial is not None:
            trial.close()  # as without ranks: not under tune(), which does it itself

    Only what rank 0 reports is looked at. The others wait while it reports and, where that is due,
    checks. A check that is itself a collective would wait for them in turn: that is not supported.

    An error of rank 0 in one of these calls is raised there as it is, and on the others as a
    :class:`~acetune.errors.ReportError`. Where rank 0 dies, or fails anywhere else in training,
    ``broadcast`` has to raise on the others, as collectives of a process group do.

    Parameters
    ----------
    trial:
        On rank 0 the trial, of ``tune``, ``acetune.ray.trial`` (in a function trainable) or
        ``acetune.optuna.trial``; None on the others.
    broadcast:
        A collective: every rank calls it, and gets what rank 0 called it with. It must take what
        can be pickled; :func:`torch_broadcast` makes one.

    Attributes
    ----------
    params, number, checkpoint:
        Those of the trial, on every rank; ``checkpoint`` is a path on rank 0's machine.
    """

    def __init__(self, trial: Trial | None, broadcast: Broadcast) -> None:
        self._trial, self._broadcast = trial, broadcast
        self._heard = _Word("SharedTrial()")  # rank 0's last word
        about = None if trial is None else (trial.params, trial.number, trial.checkpoint)
        found = self._together("SharedTrial()", lambda _: about)
        self.params: dict[str, Any] = found[0]
        self.number: int = found[1]
        self.checkpoint: Path | None = found[2]

    def steps(self, total_steps: int | None = None) -> Iterator[int]:
        """As :meth:`acetune.Trial.steps`; where rank 0 goes on after a checkpoint, all ranks do."""
        self._together("steps()", lambda trial: trial.declare(total_steps))
        if self._trial is not None:
            yield from self._trial.steps(total_steps)
            return
        step, last = self._heard.last_step, self._heard.total_steps
        while not self._heard.stop and (last is None or step < last):
            step += 1
            yield step
            step = max(step, self._heard.last_step)

    def declare(self, total_steps: int | None) -> None:
        """As :meth:`acetune.Trial.declare`."""
        self._together("declare()", lambda trial: trial.declare(total_steps))

    def start_step(self) -> None:
        """As :meth:`acetune.Trial.start_step`; only rank 0 keeps the time."""
        if self._trial is not None:
            self._trial.start_step()

    @property
    def should_stop(self) -> bool:
        """Whether the trial was told to stop: all ranks leave the training loop then."""
        return self._heard.stop

    @property
    def stop_reason(self) -> str:
        """Why the trial was told to stop, or an empty string."""
        return self._heard.reason

    def report(self, value: float | None = None, /, *others: Never, **report: Any) -> Decision:
        """As :meth:`acetune.Trial.report`, with rank 0's arguments; all ranks get its decision.

        Where Ray Tune stops the trial, rank 0 does not come back from here, and the others leave
        their loop.
        """
        if self._heard.stop:
            raise TrialStopped(
                f"trial {self.number} was told to stop ({self._heard.reason}); leave the loop when "
                "should_stop is true"
            )
        found: Decision = self._together(
            "report()", lambda trial: trial.report(value, *others, **report)
        )
        return found

    # -- inside ----------------------------------------------------------------------------------

    def _together(self, call: _Call, act: Callable[[Trial], Any]) -> Any:
        """Rank 0 acts, and tells the others what came of it; they wait for that."""
        trial = self._trial
        self._heard = self._listen(call) if trial is None else self._act(trial, call, act)
        return self._heard.content

    def _act(self, trial: Trial, call: _Call, act: Callable[[Trial], Any]) -> _Word:
        try:
            content, progress = act(trial), trial._progress
            word = _Word(call, content, trial.should_stop, trial.stop_reason)
            word = word._replace(last_step=progress.last_step, total_steps=progress.total_steps)
            self._broadcast(word)  # raises here, and only here, if something cannot be pickled
        except BaseException as error:
            word = _Word(call, stop=True, reason=f"{type(error).__name__}: {error}", failed=True)
            if isinstance(error, SystemExit) and call == "report()":  # so Ray Tune stops a trial
                decision = Decision(Action.STOP, "stopped by the scheduler")
                word = _Word(call, decision, stop=True, reason=decision.reason)
            self._heard = word
            with contextlib.suppress(Exception):  # this error matters less than the one at hand
                self._broadcast(word)
            raise
        return word

    def _listen(self, call: _Call) -> _Word:
        word: _Word = self._broadcast(None)
        if word.failed:
            self._heard = word
            raise ReportError(f"rank 0 failed in {word.call}: {word.reason}")
        if word.call != call:
            raise ReportError(
                f"the ranks are not at the same place: rank 0 called {word.call}, this one {call}"
            )
        return word


def torch_broadcast(group: Any = None) -> Broadcast:
    """A broadcast over ``torch.distributed``, whose process group must be initialised.

    ``group`` is the default one; give a Gloo group where that is NCCL and GPUs should not be used.
    """
    distributed = import_extra("torch.distributed", "PyTorch", "torch")

    def broadcast(content: Any) -> Any:
        box = [content]
        distributed.broadcast_object_list(box, src=0, group=group)
        return box[0]

    return broadcast
