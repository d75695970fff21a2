"""Hugging Face transformers: report each evaluation of a ``Trainer`` to a trial."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

from acetune.callbacks._reporter import Reporter, alone_only
from acetune.core.errors import MissingExtraError, ReportError

try:
    import torch
    from transformers import TrainerCallback
except ImportError:
    raise MissingExtraError("transformers", "transformers") from None

from acetune.callbacks._weights import TorchCandidate

__all__ = ["ReportCallback", "TorchCandidate"]

_Metrics = TypeVar("_Metrics", bound=Callable[..., Any])


class ReportCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed here
    """Reports the objective after each evaluation, and stops the ``Trainer`` when told::

        def train(trial):
            report = ReportCallback(trial, metric="eval_accuracy")
            trainer = Trainer(
                model, arguments, train_dataset=..., eval_dataset=...,
                compute_metrics=report.watch(compute_metrics), callbacks=[report],
            )
            trainer.train()

    A step is an evaluation, of ``eval_strategy="epoch"`` or ``"steps"``; how many there will be is
    taken from the trainer. Checks are called with a :class:`TorchCandidate`, in evaluation mode and
    without gradients::

        Constraint("gap", upper=0.1, check=lambda reported: gap(reported.scores))
        Constraint("failures", upper=0.2, check=lambda reported: failures(reported.model))

    Parameters
    ----------
    trial:
        The trial; one shared by all ranks where several train together.
    metric:
        Which metric of the evaluation is the objective, with ``eval_`` before it or without.
    total_steps:
        How many evaluations there are at most, where the trainer does not know, or where ``train``
        is called more than once.
    checkpoints:
        Save a checkpoint folder with each report, so that an attempt that fails is gone on with:
        ``trainer.train(resume_from_checkpoint=report.checkpoint)``.
    """

    def __init__(
        self,
        trial: Any,
        metric: str,
        *,
        total_steps: int | None = None,
        checkpoints: bool = False,
    ) -> None:
        self._reporter = Reporter(trial, metric, total_steps)
        self._checkpoints = checkpoints
        self._training = False
        self._before = 0  # steps of earlier trainings of the same trial
        self._known = False  # the metric has been seen
        self._others: set[str] = set()  # what else was, as long as it has not
        self._scores: Any = None

    @property
    def checkpoint(self) -> str | None:
        """What to give to ``train`` as ``resume_from_checkpoint``: a folder, or None."""
        folder = self._reporter.trial.checkpoint
        return None if folder is None else str(folder)

    def watch(self, compute_metrics: _Metrics) -> _Metrics:
        """The same function; the predictions that it is shown become ``reported.scores``.

        A check that needs nothing else need not predict again. They are as the model gives them
        (logits, mostly), in the order of the evaluation data.
        """

        @functools.wraps(compute_metrics)
        def watched(predicted: Any, *args: Any, **options: Any) -> Any:
            if args or options:
                raise ReportError(
                    "watch() needs all predictions at once: with batch_eval_metrics=True the "
                    "trainer shows them in pieces"
                )
            self._scores = predicted.predictions
            return compute_metrics(predicted)

        return cast(_Metrics, watched)

    # -- what the trainer calls ------------------------------------------------------------------

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The trainer knows now how much there is to train."""
        alone_only(self._checkpoints, args.world_size)
        if args.eval_strategy == "no":
            raise ReportError(
                "the trainer does not evaluate: set eval_strategy='epoch', or 'steps' with "
                "eval_steps, in TrainingArguments"
            )
        self._before = self._reporter.last_step
        self._reporter.begin(evaluations(args, state, state.max_steps, state.num_train_epochs))
        self._training = True

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, Any], **given: Any
    ) -> None:
        """Report, and tell the trainer to stop where the trial was stopped."""
        if not self._training:  # evaluate() on its own
            return
        names = (self._reporter.metric, f"eval_{self._reporter.metric}")
        if not any(name in metrics for name in names):
            self._others.update(metrics)  # several sets are evaluated one after the other
            return
        self._known = True
        model = given["model"]
        value = self._reporter.value(metrics, *names)
        candidate = TorchCandidate(model, self._scores)
        made = evaluations(args, state, state.global_step, state.epoch)
        if made is None:  # eval_on_start, or before the first one that was planned
            return
        writer = self._writer(state, given) if self._checkpoints else None
        with torch.no_grad():  # the trainer has put the model into evaluation mode
            stop = self._reporter.report(self._before + made, value, candidate, writer)
        control.should_training_stop = control.should_training_stop or stop

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """All sets have been evaluated by now."""
        self._require_metric()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """What is evaluated from here on is not training."""
        self._training = False
        self._require_metric()
        if not self._reporter.last_step:
            raise ReportError("training has ended without an evaluation: nothing was reported")

    # -- inside ----------------------------------------------------------------------------------

    def _require_metric(self) -> None:
        if self._others and not self._known:
            raise self._reporter.unknown(self._others)

    def _writer(self, state: Any, given: Mapping[str, Any]) -> Callable[[Path], None]:
        """What the trainer needs to go on, under the names that it looks for."""

        def write(folder: Path) -> None:
            model = given["model"]
            if hasattr(model, "save_pretrained"):
                model.save_pretrained(folder)
            else:  # a plain module, of which the trainer loads the state dict
                torch.save(model.state_dict(), folder / "pytorch_model.bin")
            torch.save(given["optimizer"].state_dict(), folder / "optimizer.pt")
            torch.save(given["lr_scheduler"].state_dict(), folder / "scheduler.pt")
            state.save_to_json(str(folder / "trainer_state.json"))

        return write


def evaluations(args: Any, state: Any, steps: int, epochs: float) -> int | None:
    """How many evaluations a trainer has made after that many steps and epochs, if it can know."""
    delay = math.ceil(args.eval_delay)
    if args.eval_strategy == "epoch":
        whole = math.ceil(epochs - 1e-6) - max(delay - 1, 0)  # the last may be a part
        return None if epochs >= sys.maxsize else max(whole, 0) or None
    each = state.eval_steps
    made = steps // each - max(delay - 1, 0) // each
    if steps == state.max_steps and steps % each:
        made += 1  # at the end comes one more
    return max(made, 0) or None
