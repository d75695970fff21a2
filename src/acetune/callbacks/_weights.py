"""A PyTorch model as one validation found it, kept as a copy in main memory.

A module is taken apart: its tensors are copied to the CPU, and its Python objects (architecture,
attributes) are pickled with holes where the tensors are. So a copy is of one moment in all its
parts, one that cannot be made is an error when it is made and not after hours of training, and what
is written to disk can be loaded as a model.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple

import cloudpickle
import torch
from torch.nn.utils.parametrize import is_parametrized

from acetune.core.errors import ReportError

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
        self._model = model  # of a kept one None, until it is asked for
        self.scores = scores
        self._parts: _Parts | None = None  # of a kept one

    @property
    def model(self) -> Any:
        """The module, in evaluation mode, on the device it was trained on.

        While training goes on it is the very module that trains: do not change it. A kept one has
        a module of its own, with attributes and buffers as they were, whose parameters require no
        gradient. One that was loaded from disk is on the CPU.
        """
        if self._model is None:
            assert self._parts is not None
            self._model = _put_together(self._parts)
        return self._model

    @property
    def weights(self) -> Mapping[str, Any]:
        """The state dict, copied to main memory."""
        return _copied(self._model.state_dict()) if self._parts is None else self._parts.weights

    def keep(self) -> TorchCandidate:
        """The same with a copy of the module: training goes on without changing it."""
        kept = TorchCandidate(None, self.scores)
        kept._parts = _take_apart(self._model) if self._parts is None else self._parts
        return kept

    def __getstate__(self) -> dict[str, Any]:
        parts = self._parts or _take_apart(self._model)
        return {
            "shape": parts.shape,
            "others": parts.others,
            "weights": parts.weights,
            "scores": self.scores,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.scores = state["scores"]
        # no devices: those of another machine may not be there
        self._parts = _Parts(state["shape"], state["others"], state["weights"], {})
        self._model = _put_together(self._parts)


class _Parts(NamedTuple):
    """A module taken apart. A tensor's place is its name in the state dict, or its number."""

    shape: bytes  # the pickle with holes
    others: list[Any]  # tensors that are not in the state dict
    weights: dict[str, Any]  # the state dict
    devices: dict[str | int, Any]  # where tensors were, by their places


def _copied(state: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else value
        for name, value in state.items()
    }


def _take_apart(module: Any) -> _Parts:
    state = module.state_dict(keep_vars=True)  # the module's own tensors, known by their identity
    places: dict[int, str | int] = {
        id(value): name for name, value in state.items() if isinstance(value, torch.Tensor)
    }
    others: list[torch.Tensor] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle is not typed
        def persistent_id(self, thing: object) -> tuple[str | int, bool] | None:
            if not isinstance(thing, torch.Tensor):
                return None
            if id(thing) not in places:
                places[id(thing)] = len(others)
                others.append(thing)  # held until the end, so that no other gets its id
            return places[id(thing)], isinstance(thing, torch.nn.Parameter)

        def reducer_override(self, thing: Any) -> Any:
            if isinstance(thing, torch.nn.Module) and is_parametrized(thing):
                # PyTorch lets them be copied but not pickled: their classes are made on the spot
                base = _own_class(thing)
                return _parametrized, (base, [*thing.parametrizations]), base.__getstate__(thing)
            return super().reducer_override(thing)

    patches = {name: vars(module)[name] for name in _PATCHES if name in vars(module)}
    buffer = io.BytesIO()
    for name in patches:
        delattr(module, name)
    try:
        Pickler(buffer).dump(module)
    except Exception as error:
        raise ReportError(
            f"no copy can be made of the {type(module).__name__} ({type(error).__name__}: {error})"
            f"{_culprit(module)}; give its class a __getstate__ that leaves out what cannot be "
            "pickled, or set that when training has ended"
        ) from error
    finally:
        vars(module).update(patches)
    devices = {
        places[id(tensor)]: tensor.device
        for tensor in [*state.values(), *others]
        if isinstance(tensor, torch.Tensor)
    }
    copies = [tensor.detach().to("cpu", copy=True) for tensor in others]
    return _Parts(buffer.getvalue(), copies, _copied(state), devices)


def _own_class(module: Any) -> Any:
    """The class of a module before PyTorch put one in front that refuses to be pickled."""
    return type(module).__mro__[1] if is_parametrized(module) else type(module)


def _culprit(module: Any) -> str:
    """Which attribute of a module, or of one inside it, is to blame, where one can be named."""
    for path, part in module.named_modules():
        for name, value in _own_class(part).__getstate__(part).items():
            if name in ("_modules", "_parameters", "_buffers", *_PATCHES):
                continue
            try:
                cloudpickle.dumps(value)
            except Exception:
                return f", because of its {'.'.join(filter(None, (path, name)))!r}"
    return ""


def _parametrized(base: type, names: list[str]) -> Any:
    """An empty module some of whose tensors are computed by what is registered for them."""

    def computed(name: str) -> property:
        return property(
            lambda module: module.parametrizations[name](),
            lambda module, value: module.parametrizations[name].right_inverse(value),
        )

    made = {name: computed(name) for name in names}
    kind: Any = type(f"Parametrized{base.__name__}", (base,), made)
    return kind.__new__(kind)


def _put_together(parts: _Parts) -> Any:
    made: dict[str | int, Any] = {}  # tied weights stay tied

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, key: tuple[str | int, bool]) -> Any:
            place, parameter = key
            if place not in made:
                tensor = parts.others[place] if isinstance(place, int) else parts.weights[place]
                tensor = tensor.to(parts.devices.get(place, "cpu"))
                made[place] = torch.nn.Parameter(tensor, False) if parameter else tensor
            return made[place]

    return Unpickler(io.BytesIO(parts.shape)).load().eval()
