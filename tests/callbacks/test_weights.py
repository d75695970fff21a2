"""Copies of PyTorch modules: of one moment in all their parts, in memory and on disk."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize

from acetune.callbacks._weights import TorchCandidate
from acetune.core.errors import ReportError

X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


class Doubled(torch.nn.Module):
    """A parametrisation of somebody's own."""

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return 2 * weight


def own(layer: torch.nn.Module) -> torch.nn.Module:
    parametrize.register_parametrization(layer, "weight", Doubled())
    return parametrize.register_parametrization(layer, "bias", Doubled())


@pytest.mark.parametrize(
    "wrap",
    [
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
        own,
        lambda layer: own(parametrizations.weight_norm(layer)),
    ],
)
def test_parametrised_modules(wrap: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    net = torch.nn.Sequential(wrap(torch.nn.Linear(3, 3)), torch.nn.Linear(3, 1)).eval()
    with torch.no_grad():
        before = net(X)
        kept = TorchCandidate(net).keep()
        for parameter in net.parameters():
            parameter.mul_(-3.0)
        assert not torch.allclose(net(X), before)
        loaded = pickle.loads(pickle.dumps(kept))
        for model in (kept.model, loaded.model, loaded.keep().model):
            torch.testing.assert_close(model(X), before)
            assert parametrize.is_parametrized(model[0], "weight")
            net.load_state_dict(model.state_dict())
            torch.testing.assert_close(net(X), before)
            parametrize.remove_parametrizations(model[0], "weight")
            torch.testing.assert_close(model(X), before)


class Stateful(torch.nn.Module):
    """Has state that its state dict does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 1)
        self.register_buffer("average", torch.zeros(1), persistent=False)
        self.plain = torch.ones(1)
        self.same = self.plain
        self.threshold, self.seen = 0.1, [1]


def test_state_that_is_not_in_the_state_dict_is_of_the_same_moment() -> None:
    net = Stateful().eval()
    kept = TorchCandidate(net).keep()
    net.threshold = 0.9
    net.seen.append(2)
    net.average += 100
    net.plain += 100
    for found in (kept, pickle.loads(pickle.dumps(kept))):
        assert (found.model.threshold, found.model.seen) == (0.1, [1])
        assert (float(found.model.average), float(found.model.plain)) == (0.0, 1.0)
        assert found.model.same is found.model.plain
    assert kept.weights.keys() == net.state_dict().keys()


def test_every_tensor_comes_back_where_it_was() -> None:
    kept = TorchCandidate(Stateful()).keep()
    parts = kept._parts
    assert parts is not None
    assert parts.devices == dict.fromkeys([*parts.weights, 0, 1], torch.device("cpu"))
    # as if half of it had been trained on another device: this one every machine has
    elsewhere = {"layer.weight", 0, 1}
    devices = {place: "meta" if place in elsewhere else "cpu" for place in parts.devices}
    kept._parts = parts._replace(devices=devices)
    found = kept.model
    there = [found.layer.weight, found.average, found.plain, found.same]
    assert [tensor.device.type for tensor in there] == ["meta"] * 4
    assert found.layer.bias.device.type == "cpu"
    loaded = pickle.loads(pickle.dumps(kept))  # perhaps on a machine that has no such device
    assert loaded.model.plain.device.type == loaded.model.layer.weight.device.type == "cpu"


def test_what_cannot_be_copied_is_named() -> None:
    net: Any = torch.nn.Sequential(torch.nn.Linear(3, 1))
    net[0].lock = threading.Lock()
    with pytest.raises(ReportError, match=r"copy can be made of the Sequential .*'0\.lock'"):
        TorchCandidate(net).keep()
