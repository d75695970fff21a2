"""Lightning: report each validation of a ``Trainer`` to a trial."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acetune.callbacks._reporter import Reporter, alone_only
from acetune.core.errors import MissingExtraError, ReportError

try:
    import torch
    from lightning.pytorch import Callback
except ImportError:
    raise MissingExtraError("Lightning", "lightning") from None

from acetune.callbacks._weights import TorchCandidate

__all__ = ["ReportCallback", "TorchCandidate"]

_CHECKPOINT = "last.ckpt"


class ReportCallback(Callback):  # type: ignore[misc]  # lightning is not typed here
    """Reports the objective after each validation, and stops the ``Trainer`` when told::

        def train(trial):
            report = ReportCallback(trial, metric="val_accuracy")
            trainer = lightning.Trainer(max_epochs=20, callbacks=[report])
            trainer.fit(Net(**trial.params), train_loader, val_loader)

    A step is a validation, however often ``val_check_interval`` or ``check_val_every_n_epoch``
    make one; the sanity check is none. How many there will be is taken from the trainer. Checks
    are called with a :class:`TorchCandidate`, in evaluation mode and without gradients::

        Constraint("gap", upper=0.1, check=lambda reported: gap(reported.model))

    Parameters
    ----------
    trial:
        The trial; one shared by all ranks where several train together.
    metric:
        Which metric of the validation is the objective, by the name it is logged with.
    scores:
        What ``validation_step`` returns its predictions as, if it returns a dict: they are put
        together over the batches and are ``reported.scores``, so that a check need not
        predict again. Of several validation loaders they are those of the first one, or of the one
        that ``metric`` names with Lightning's ``"/dataloader_idx_1"`` at its end; on several ranks
        those of rank 0's batches.
    total_steps:
        How many validations there are at most, where the trainer does not know, or where ``fit``
        is called more than once.
    checkpoints:
        Save a checkpoint with each report, so that an attempt that fails is gone on with:
        ``trainer.fit(..., ckpt_path=report.checkpoint)``.
    """

    def __init__(
        self,
        trial: Any,
        metric: str,
        *,
        scores: str | None = None,
        total_steps: int | None = None,
        checkpoints: bool = False,
    ) -> None:
        super().__init__()
        self._reporter = Reporter(trial, metric, total_steps)
        self._scores, self._checkpoints = scores, checkpoints
        named = re.search(r"/dataloader_idx_(\d+)$", metric)
        self._loader = int(named[1]) if named else 0  # whose scores are noted
        self._validations = 0
        self._batches: list[Any] = []  # scores of the validation that runs

    @property
    def checkpoint(self) -> Path | None:
        """What to give to ``fit`` as ``ckpt_path``: the file of an earlier attempt, or None."""
        folder = self._reporter.trial.checkpoint
        return None if folder is None else Path(folder) / _CHECKPOINT

    # -- what the trainer calls ------------------------------------------------------------------

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """The trainer knows now how much there is to train."""
        alone_only(self._checkpoints, trainer.world_size)
        self._reporter.begin(total_validations(trainer))

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """A new validation: what the last one predicted is of no use any more."""
        self._batches = []

    def on_validation_batch_end(
        self,
        trainer: Any,
        pl_module: Any,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Note what was predicted, if that is wanted."""
        if self._scores is not None and dataloader_idx == self._loader:
            self._batches.append(self._scores_in(outputs))

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        """Report, and tell the trainer to stop where the trial was stopped."""
        if not _in_training(trainer):
            return
        value = self._reporter.value(trainer.callback_metrics)
        self._validations += 1
        scores = torch.cat(self._batches) if self._batches else None
        candidate = TorchCandidate(pl_module, scores)
        # the trainer has put the module into evaluation mode, without gradients
        stop = self._reporter.report(self._validations, value, candidate, self._writer(trainer))
        trainer.should_stop = trainer.should_stop or stop

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Training that was never validated has reported nothing: say why."""
        if not self._validations:
            raise ReportError(
                "training has ended without a validation: there is nothing to report; give fit() "
                "validation data, and the module a validation_step that logs "
                f"{self._reporter.metric!r}"
            )

    def state_dict(self) -> dict[str, Any]:
        """How far training got, for the checkpoints of the trainer."""
        return {"validations": self._validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Training goes on from a checkpoint."""
        self._validations = state_dict["validations"]

    # -- inside ----------------------------------------------------------------------------------

    def _scores_in(self, outputs: Any) -> Any:
        if not isinstance(outputs, Mapping) or self._scores not in outputs:
            got = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise ReportError(
                f"validation_step must return a dict with {self._scores!r} for "
                f"scores={self._scores!r}, it returned {got}"
            )
        return torch.atleast_1d(outputs[self._scores].detach()).cpu()

    def _writer(self, trainer: Any) -> Callable[[Path], object] | None:
        if not self._checkpoints:
            return None
        return lambda folder: trainer.save_checkpoint(folder / _CHECKPOINT)


def _in_training(trainer: Any) -> bool:
    """Whether a validation belongs to training: no sanity check, no ``trainer.validate``."""
    return trainer.state.fn == "fit" and not trainer.sanity_checking


def total_validations(trainer: Any) -> int | None:
    """How many validations a trainer will make at most, or None if it cannot know."""
    batches, every = trainer.num_training_batches, trainer.val_check_batch
    each, accumulated = trainer.check_val_every_n_epoch, trainer.accumulate_grad_batches
    epochs = math.inf if trainer.max_epochs in (None, -1) else trainer.max_epochs
    steps = math.inf if trainer.max_steps < 0 else trainer.max_steps  # of the optimiser
    if every is None:  # by the clock
        return None
    if batches == math.inf:  # data without a length, validated after an epoch or so many batches
        total = epochs // each if every == math.inf else steps * accumulated / every
        return int(total) or None if math.isfinite(total) else None
    rest = 0  # batches after the last whole epoch
    if steps < (whole := epochs * math.ceil(batches / accumulated)):
        epochs, rest = divmod(steps, math.ceil(batches / accumulated))
        rest *= accumulated
    elif whole == math.inf:  # no end is planned
        return None
    if each is None:
        return int((epochs * batches + rest) // every) or None
    last = rest // every if (epochs + 1) % each == 0 else 0
    return int(epochs // each * (batches // every) + last) or None
