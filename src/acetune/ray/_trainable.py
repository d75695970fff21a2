"""The Trial object inside a Ray trainable, a function or a class."""

from __future__ import annotations

import re
import tempfile
import uuid
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyarrow.fs import LocalFileSystem
from ray import tune

from acetune.core.errors import ReportError
from acetune.core.report_values import require_total_steps
from acetune.core.trial_record import Progress
from acetune.ray import _result_format as wire
from acetune.ray._ray_link import RayLink, Saving
from acetune.ray._storage import Storage
from acetune.ray.broadcast import BroadcastReader, Terms
from acetune.trial.exclusive_link import ExclusiveLink
from acetune.trial.trial import Trial

_METADATA = "acetune"  # what our checkpoints are known by, and where their trial stood


class RayTrial(Trial):
    """A :class:`~acetune.Trial` whose reports go to Ray Tune."""

    _objective_named_by = "TuneConfig(metric={})"

    def __init__(
        self,
        link: RayLink,
        outlet: ClassOutlet | FunctionOutlet,
        terms: Terms,
        device: str | None,
        **made: Any,
    ) -> None:
        self._exclusive = ExclusiveLink(link, device)
        super().__init__(self._exclusive, terms.goals, terms.policy, device=device, **made)
        self._outlet = outlet
        self._ray_link = link
        if isinstance(outlet, ClassOutlet):
            outlet.before_steps(self._begin_step)
            self._exclusive.pause()  # until Ray calls step, if it does

    def _begin_step(self) -> None:
        """Ray calls ``step`` of a class trainable; before the first time it may restore it."""
        assert isinstance(self._outlet, ClassOutlet)
        if not self._progress.last_step and self._outlet.restored_step:
            self._ray_link.resume_at(self._outlet.restored_step)
        self._exclusive.go_on()
        self.start_step()

    def result(self) -> dict[str, Any]:
        """What ``step()`` of a class trainable returns: the report just made, as Ray wants it."""
        if not isinstance(self._outlet, ClassOutlet):
            raise ReportError("result() is for class trainables; here report() reports by itself")
        self._iteration_began = None  # what passes until the next step() is not training
        self._exclusive.pause()
        return self._outlet.take(self._ended)


def trial(
    trainable: tune.Trainable | None = None,
    /,
    *,
    total_steps: int | None,
    params: Mapping[str, Any] | None = None,
) -> RayTrial:
    """The trial that is being trained: call it once, inside a trainable.

    In a function trainable::

        def train(config):
            with acetune.ray.trial(total_steps=config["epochs"]) as trial:
                for step in trial.steps():
                    ...
                    trial.report(auc=..., model=..., constraints={"eod": ...})

    ``report`` calls ``tune.report`` itself and, where the scheduler stops the trial, does not come
    back. The ``with`` block makes the check that is due when training ends before its last step.

    A class trainable calls ``self.trial = acetune.ray.trial(self, total_steps=...)`` in ``setup``;
    its ``step`` calls ``self.trial.report(...)`` and ends with ``return self.trial.result()``.

    Parameters
    ----------
    trainable:
        The class trainable itself; nothing in a function.
    total_steps:
        The last step, or an upper bound. None where it is declared later, by ``steps(T)`` or
        ``declare(T)``, or not at all: then ``steps()`` goes on until you leave its loop.
    params:
        The configuration, if you want it as ``trial.params``; a class trainable's is known.
    """
    total = require_total_steps(total_steps)
    outlet = FunctionOutlet() if trainable is None else ClassOutlet(trainable)
    reader = BroadcastReader(outlet.storage.experiment)
    terms, view = reader.introduce()
    checkpoint, progress = outlet.resume()
    progress.total_steps = total
    if params is None:
        params = {} if trainable is None else trainable.config
    token = uuid.uuid4().hex[:12]
    return RayTrial(
        RayLink(outlet.trial, token, reader, terms, view, outlet, progress),
        outlet,
        terms,
        device="cuda:0" if outlet.resources.get("GPU") else None,
        number=_number(outlet.trial, outlet.storage.trial_folder),
        params=params,
        folder=outlet.storage.working_folder,
        checkpoint=checkpoint,
        progress=progress,
        threads=max(1, int(outlet.resources.get("CPU", 1))),
    )


class FunctionOutlet:
    """Results of a function trainable: ``tune.report`` sends them, and waits for the driver."""

    def __init__(self) -> None:
        context = tune.get_context()
        with warnings.catch_warnings(action="ignore"):  # Ray's word on a call outside of Tune
            trial: str | None = context.get_trial_id()
        if trial is None:
            raise ReportError(
                "acetune.ray.trial() was called outside a function that a Tuner runs; a class "
                "trainable calls acetune.ray.trial(self, total_steps=...)"
            )
        self.trial = trial
        self.storage = Storage(context.get_storage())
        self.resources = context.get_trial_resources().required_resources

    def resume(self) -> tuple[Path | None, Progress]:
        """The checkpoint to go on from, if Ray has one of ours, and where it stands."""
        found = tune.get_checkpoint()
        known = {} if found is None else found.get_metadata().get(_METADATA, {})
        if not known:
            return None, Progress()
        local = isinstance(found.filesystem, LocalFileSystem)
        folder = found.path if local else found.to_directory(tempfile.mkdtemp())
        return Path(folder), Progress(**known)

    def send(self, result: dict[str, Any], message: wire.Message, saving: Saving | None) -> None:
        """See Outlet. Raises SystemExit if the trial was stopped."""
        result[wire.REPORT] = wire.encode(message)
        if saving is None:
            tune.report(result)
            return
        with tempfile.TemporaryDirectory() as folder:
            saving.write(Path(folder))
            checkpoint = tune.Checkpoint.from_directory(folder)
            # JSON would make a list of a trend; who goes on is told it anew
            known = {**asdict(saving.progress), "trend": None}
            checkpoint.set_metadata({_METADATA: known})
            tune.report(result, checkpoint=checkpoint)

    def ready_to_save(self) -> None:
        """Reports may carry checkpoints."""


class ClassOutlet:
    """Results of a class trainable: they wait until ``step`` returns them."""

    def __init__(self, trainable: tune.Trainable) -> None:
        if not isinstance(trainable, tune.Trainable):
            raise ReportError(
                f"acetune.ray.trial(self) takes a class trainable, got {trainable!r}; in a "
                "function it is acetune.ray.trial(total_steps=...)"
            )
        if trainable._storage is None:
            raise ReportError("acetune.ray.trial() was called outside of a Tuner")
        self._trainable = trainable
        self.trial: str = trainable.trial_id
        self.storage = Storage(trainable._storage)
        self.resources = trainable.trial_resources.required_resources
        self._pending: tuple[dict[str, Any], wire.Message] | None = None

    def resume(self) -> tuple[Path | None, Progress]:
        """Ray restores class trainables after ``setup``: see :meth:`restored_step`."""
        return None, Progress()

    @property
    def restored_step(self) -> int:
        """How many steps were made before, by a run whose checkpoint Ray has loaded."""
        return int(self._trainable.iteration)

    def before_steps(self, begin_step: Callable[[], None]) -> None:
        """An iteration begins when Ray calls ``step``."""
        step = type(self._trainable).step.__get__(self._trainable)

        def begun() -> dict[str, Any]:
            begin_step()
            result: dict[str, Any] = step()
            return result

        self._trainable.step = begun

    def ready_to_save(self) -> None:
        """Class trainables have a method for that."""
        raise ReportError(
            "report(checkpoint=...) is for function trainables; a class trainable has "
            "save_checkpoint and load_checkpoint"
        )

    def send(self, result: dict[str, Any], message: wire.Message, saving: Saving | None) -> None:
        """See Outlet."""
        if self._pending is not None:  # the check at the trial's end, in the same step
            message = message._replace(report=self._pending[1].report)
            result = {**self._pending[0], **result}
        self._pending = result, message

    def take(self, ended: bool) -> dict[str, Any]:
        """What was reported since the last time."""
        if self._pending is None:
            raise ReportError("step() must call report(...) before it returns trial.result()")
        (result, message), self._pending = self._pending, None
        result[wire.REPORT] = wire.encode(message)
        if ended or message.closed:
            result["done"] = True
        return result


def _number(trial: str, folder: str) -> int:
    """The trial's place in the experiment, from 1: Ray counts in the name, or in the folder's."""
    found = re.search(r"_(\d+)$", trial)
    if found:
        return int(found[1]) + 1
    found = re.search(rf"{re.escape(trial)}_(\d+)", folder)
    return int(found[1]) if found else 0
