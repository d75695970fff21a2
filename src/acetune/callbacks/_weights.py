"""A PyTorch model as one validation found it, kept as a copy of its weights in main memory.

What is kept is the state dict, on the CPU. The rest of the module (its architecture, in Python
objects) is pickled with holes where tensors are, only when a whole model is asked for: so a copy
on the way costs what its weights cost, whatever else hangs on the module, and what is written to
disk can be loaded as a model.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

import cloudpickle
import torch

#: what accelerate hangs on a prepared model; such a forward() refuses to be pickled
_PATCHES = ("forward", "_original_forward")


class TorchCandidate:
    """What checks are called with: the model as a validation found it.

    The same object is what ``result.best.load()`` gives back of a kept checkpoint.

    Attributes
    ----------
    scores:
        What the validation predicted, where the callback was told to note it; else None.

    >>> net = torch.nn.Linear(1, 1, bias=False)
    >>> _ = torch.nn.init.constant_(net.weight, 2.0)
    >>> kept = TorchCandidate(net).keep()
    >>> _ = torch.nn.init.constant_(net.weight, 5.0)      # training goes on
    >>> kept.model(torch.ones(1))
    tensor([2.])
    """

    def __init__(self, model: Any, scores: Any = None) -> None:
        self._live = model
        self.scores = scores
        self._weights: dict[str, Any] | None = None  # of a kept one
        self._device: Any = None  # of a kept one: where it was trained
        self._model: Any = None  # of a kept one, made when first asked for

    @property
    def model(self) -> Any:
        """The module, in evaluation mode, on the device it was trained on.

        While training goes on it is the very module that trains: do not change it. A kept one has
        a module of its own, whose parameters require no gradient; it is on the CPU where it was
        loaded from disk, or was spread over several devices.
        """
        if self._weights is None:
            return self._live
        if self._model is None:
            model = _fill(*_hollow(self._live), self._weights)
            self._model = model if self._device is None else model.to(self._device)
        return self._model

    @property
    def weights(self) -> Mapping[str, Any]:
        """The state dict, copied to main memory."""
        return _copied(self._live) if self._weights is None else self._weights

    def keep(self) -> TorchCandidate:
        """The same with a copy of the weights: training goes on without changing it."""
        kept = TorchCandidate(self._live, self.scores)
        kept._weights = dict(self.weights)
        # now, and not on use: Lightning moves a module to the CPU when training has ended
        devices = {parameter.device for parameter in self._live.parameters()}
        kept._device = devices.pop() if len(devices) == 1 else None
        return kept

    def __getstate__(self) -> dict[str, Any]:
        shape, others = _hollow(self._live)
        return {
            "shape": shape,
            "others": others,
            "weights": dict(self.weights),
            "scores": self.scores,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.scores = state["scores"]
        self._weights, self._device = state["weights"], None
        self._live = self._model = _fill(state["shape"], state["others"], state["weights"])


def _copied(module: Any) -> dict[str, Any]:
    return {
        name: value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
        for name, value in module.state_dict().items()
    }


def _hollow(module: Any) -> tuple[bytes, list[Any]]:
    """A module without its tensors: the pickle, and copies of those not in its state dict."""
    state = module.state_dict(keep_vars=True)  # the module's own tensors, known by their identity
    names = {id(value): name for name, value in state.items() if isinstance(value, torch.Tensor)}
    others: list[Any] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
        def persistent_id(self, thing: object) -> tuple[str | int, bool] | None:
            if not isinstance(thing, torch.Tensor):
                return None
            parameter = isinstance(thing, torch.nn.Parameter)
            if id(thing) in names:
                return names[id(thing)], parameter
            others.append(thing.detach().to("cpu", copy=True))
            return len(others) - 1, parameter

    patches = {name: vars(module)[name] for name in _PATCHES if name in vars(module)}
    buffer = io.BytesIO()
    for name in patches:
        delattr(module, name)
    try:
        Pickler(buffer).dump(module)
    finally:
        vars(module).update(patches)
    return buffer.getvalue(), others


def _fill(shape: bytes, others: list[Any], weights: Mapping[str, Any]) -> Any:
    """The module of a pickle with holes, with these weights in them."""
    made: dict[str | int, Any] = {}  # tied weights stay tied

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: tuple[str | int, bool]) -> Any:
            place, parameter = key
            if place not in made:
                tensor = others[place] if isinstance(place, int) else weights[place]
                made[place] = torch.nn.Parameter(tensor, False) if parameter else tensor
            return made[place]

    return Unpickler(io.BytesIO(shape)).load().eval()
