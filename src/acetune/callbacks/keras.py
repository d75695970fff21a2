"""Keras 3: report the epochs of ``fit`` to a trial, whatever the backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acetune.callbacks._reporter import Reporter
from acetune.core.errors import MissingExtraError, ReportError

try:
    import keras
except ImportError as error:
    if error.name != "keras":  # it is there, but not its backend
        raise ImportError(
            f"Keras found no backend ({error}); set the environment variable KERAS_BACKEND=torch "
            "(or jax, tensorflow: what is installed) before anything imports keras"
        ) from error
    raise MissingExtraError("Keras", "keras") from None

from acetune.callbacks._plan import Planner, build

__all__ = ["KerasCandidate", "ReportCallback"]


class KerasCandidate:
    """What checks are called with: the model as an epoch left it.

    The same object is what ``result.best.load()`` gives back of a kept checkpoint.
    """

    def __init__(self, model: Any, planner: Planner | None = None) -> None:
        self._model = model  # of a kept one None, until it is asked for
        self._planner = planner or Planner()
        self._plan: dict[str, Any] | None = None  # of a kept one
        self._weights: list[Any] = []  # of a kept one

    @property
    def model(self) -> Any:
        """The model: to ``predict`` with, or to call.

        While training goes on it is the very model that trains: do not change it. A kept one is
        made anew from its configuration and its weights, and is not compiled.
        """
        if self._model is None:
            assert self._plan is not None
            self._model = build(self._plan, self._weights)
        return self._model

    @property
    def weights(self) -> list[Any]:
        """The weights as NumPy arrays, in the order of ``model.set_weights``."""
        if self._plan is not None:
            return self._weights
        return [weight.copy() for weight in self._model.get_weights()]

    def keep(self) -> KerasCandidate:
        """The same with a copy of the weights: training goes on without changing it."""
        kept = KerasCandidate(None, self._planner)
        kept._plan = self._plan or self._planner.plan(self._model)
        kept._weights = self.weights
        return kept

    def __getstate__(self) -> dict[str, Any]:
        return {"plan": self._plan or self._planner.plan(self._model), "weights": self.weights}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._planner, self._plan, self._weights = Planner(), state["plan"], state["weights"]
        self._model = build(self._plan, self._weights)


class ReportCallback(keras.callbacks.Callback):  # type: ignore[misc]  # keras is not typed here
    """Reports the objective after each validated epoch, and stops ``fit`` when told::

        def train(trial):
            report = ReportCallback(trial, metric="val_accuracy")
            model.fit(X, y, validation_data=(X_val, y_val), epochs=20, callbacks=[report])

    A step is an epoch; with ``validation_freq=5`` every fifth one is reported. The last step is
    ``epochs``. Checks are called with a :class:`KerasCandidate`::

        Constraint("gap", upper=0.1, check=lambda candidate: gap(candidate.model.predict(X_val)))

    Parameters
    ----------
    trial:
        The trial; one shared by all ranks where several train together.
    metric:
        Which metric is the objective, by its name in the logs: ``"val_loss"``.
    total_steps:
        The last step, where ``fit`` is called more than once.
    checkpoints:
        Save the model with each report, so that an attempt that fails is gone on with:
        ``keras.models.load_model(report.checkpoint)`` if that is not None, and
        ``fit(..., initial_epoch=report.initial_epoch)``.
    custom_objects:
        Your own functions and classes that the model is made of, by their names, as for Keras'
        ``load_model``. Only those are needed that cannot be found on its layers: where a copy of
        the model cannot be made, the first one to be kept is an error that says so.
    """

    def __init__(
        self,
        trial: Any,
        metric: str,
        *,
        total_steps: int | None = None,
        checkpoints: bool = False,
        custom_objects: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self._planner = Planner(custom_objects)
        self._reporter = Reporter(trial, metric, total_steps)
        self._checkpoints = checkpoints
        self._before: int | None = None  # steps of earlier calls of fit, known at its first epoch
        self._logged: set[str] = set()

    @property
    def checkpoint(self) -> Path | None:
        """The model that an earlier attempt saved last, or None."""
        folder = self._reporter.trial.checkpoint
        return None if folder is None else next(Path(folder).glob("epoch-*.keras"))

    @property
    def initial_epoch(self) -> int:
        """How many epochs that model was trained for; 0 without one."""
        found = self.checkpoint
        return 0 if found is None else int(found.stem.removeprefix("epoch-"))

    # -- what fit() calls ------------------------------------------------------------------------

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Keras knows how many epochs there will be."""
        self._before = None
        self._reporter.begin(self.params["epochs"])

    def on_epoch_begin(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """A second fit() may count its epochs from 0 again, or go on with ``initial_epoch``."""
        if self._before is None:
            last = self._reporter.last_step
            self._before = last if epoch < last else 0

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Report, and tell fit() to stop where the trial was stopped."""
        logs = logs or {}
        self._logged.update(logs)
        metric = self._reporter.metric
        if metric not in logs:
            if metric.startswith("val_") and not any(name.startswith("val_") for name in logs):
                return  # an epoch without validation
            raise self._reporter.unknown(logs)
        value = self._reporter.value(logs)
        step = (self._before or 0) + epoch + 1
        writer = self._writer(step) if self._checkpoints else None
        candidate = KerasCandidate(self.model, self._planner)
        if self._reporter.report(step, value, candidate, writer):
            self.model.stop_training = True

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Training that was never validated has reported nothing: say why."""
        if not self._reporter.last_step:
            raise ReportError(
                f"fit() has ended without {self._reporter.metric!r}: there is nothing to report. "
                f"Its logs have {sorted(self._logged)}; give it validation_data"
            )

    # -- inside ----------------------------------------------------------------------------------

    def _writer(self, epochs: int) -> Callable[[Path], object]:
        return lambda folder: self.model.save(folder / f"epoch-{epochs:05d}.keras")
