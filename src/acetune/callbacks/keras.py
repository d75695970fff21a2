"""Keras 3: report the epochs of ``fit`` to a trial, whatever the backend."""

from __future__ import annotations

import copy
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
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
        made again from its configuration and its weights, and is not compiled.
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

        Constraint("gap", upper=0.1, check=lambda reported: gap(reported.model.predict(X_val)))

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


# -- plans: what a model can be built from again ---------------------------------------------------
#
# Keras writes the names of functions and classes into a configuration. Those that are its own it
# finds again; all others it has to be given. They are looked for on the layers, and the rest is for
# the user to say.


class Planner:
    """Makes plans of a model during its training.

    Parameters
    ----------
    custom_objects:
        Functions and classes by their names, before those that are found.
    """

    def __init__(self, custom_objects: Mapping[str, Any] | None = None) -> None:
        if custom_objects is not None and not isinstance(custom_objects, Mapping):
            raise ReportError(
                "custom_objects must be a dict of functions and classes by their names, got "
                f"{custom_objects!r}"
            )
        self._given = dict(custom_objects or {})
        self._tried: Any = None  # the model of which a copy has been made
        self._custom: dict[str, Any] = {}  # of that model

    def plan(self, model: Any) -> dict[str, Any]:
        """What the model can be built from again, without its weights.

        With the first plan of a model a copy is made: an error comes now, and not when training has
        ended.
        """
        if not model.built:
            raise ReportError("the model has no weights yet: it cannot be kept")
        try:
            plan = {
                "class": type(model),
                "config": model.get_config(),
                "build": model.get_build_config(),
            }
            if self._tried is not model:
                self._custom = named(custom_parts(model), plan["config"], self._given)
                build({**plan, "custom": self._custom}, model.get_weights())
                self._tried = model
        except ReportError:
            raise
        except Exception as error:
            raise ReportError(
                "no copy can be made of the model: name your own functions and classes in it, as "
                "ReportCallback(..., custom_objects={'name': function}). A function must not be a "
                "lambda, and a class needs get_config. Known are "
                f"{sorted(self._custom)}. {type(error).__name__}: {error}"
            ) from error
        return {**plan, "custom": self._custom}


def build(plan: Mapping[str, Any], weights: list[Any]) -> Any:
    """The model of a plan, with these weights."""
    with keras.saving.CustomObjectScope(plan["custom"]):
        config = copy.deepcopy(plan["config"])  # some layers write into theirs
        model = plan["class"].from_config(config)
        if not model.built:
            model.build_from_config(plan["build"])
    model.set_weights(weights)
    return model


def named(found: Iterable[Any], config: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a configuration names; an error where a name may mean two things."""
    wanted = set(_words(config)) - given.keys()
    names: dict[str, Any] = {}
    for part in found:
        for name in {part.__name__, keras.saving.get_registered_name(part)} & wanted:
            if names.setdefault(name, part) is not part:
                raise ReportError(
                    f"two parts of the model are named {name!r}, {names[name]!r} and {part!r}: no "
                    "copy of it can be made; give one of them another name"
                )
    return {**names, **given}


def custom_parts(model: Any) -> Iterator[Any]:
    """Functions and classes that are not Keras' own, on the layers of a model and inside them."""
    left, seen = [model], set()
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))  # all of them live on the model: no other gets that id
        if isinstance(thing, types.FunctionType):
            if not _is_keras(thing):
                yield thing
        elif isinstance(thing, dict):
            left += thing.values()
        elif isinstance(thing, (list, tuple)):
            left += thing
        elif hasattr(type(thing), "get_config"):  # a layer, an initialiser, a regulariser
            if not _is_keras(type(thing)):
                yield type(thing)
            left += getattr(thing, "__dict__", {}).values()


def _words(config: Any) -> Iterator[str]:
    if isinstance(config, str):
        yield config
    elif isinstance(config, (Mapping, list, tuple)):
        for part in config.values() if isinstance(config, Mapping) else config:
            yield from _words(part)


def _is_keras(part: Any) -> bool:
    return str(part.__module__).split(".")[0] == "keras"
