"""Fine-tuning of a text classifier, a given number of examples at a time.

Small models on large GPUs are bound by the launching of kernels. So on a GPU a whole optimiser step
(batch, forward, backward, clipping, schedule, update) is captured once for each length of text as a
CUDA graph and replayed; the data lie on the GPU, and the host only says which graph comes next. The
model computes in bfloat16, and the optimiser keeps its weights in single precision: two copies a
step cost less than the casts of every layer. On a CPU the model computes in single precision; where
it cannot be captured, the same step runs as it is written.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.constraints.robustness.transformer import evaluating, require_torch

Array = NDArray[Any]

_WIDTHS = (16, 24, 32, 48, 64, 96, 128, 256, 512)  # texts are padded to one of these: a graph each
_WARM_UPS = 3  # before a capture, so that what is set up on first use is there
_MAX_NORM = 1.0  # of the gradient, as Hugging Face's Trainer clips it


@dataclass(frozen=True)
class Labelled:
    """Tokenised texts with their classes, padded at the right."""

    ids: Array
    lengths: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)


def label_texts(
    tokenizer: Any, texts: Sequence[str], labels: Sequence[int], max_length: int = 128
) -> Labelled:
    """Tokenise texts once, for any number of trainings."""
    found = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
    lengths = np.array([len(row) for row in found])
    ids = np.full((len(found), int(lengths.max())), tokenizer.pad_token_id or 0, dtype=np.int32)
    for i, row in enumerate(found):
        ids[i, : len(row)] = row
    return Labelled(ids, lengths, np.array(labels, dtype=np.int64))


class FineTuner:
    """A training in progress.

    Parameters
    ----------
    model:
        A sequence classifier of Hugging Face, on its device; on a GPU it becomes bfloat16.
    data:
        The training texts. They are shuffled anew every epoch; a batch may span two epochs.
    params:
        ``learning_rate``, ``per_device_train_batch_size``, ``warmup_ratio``, ``weight_decay``,
        ``adam_epsilon`` and ``seed``, with the meaning they have for Hugging Face's Trainer.
    examples:
        So many in all: then the learning rate reaches zero.
    """

    def __init__(
        self, model: Any, data: Labelled, params: Mapping[str, Any], examples: int
    ) -> None:
        torch = require_torch()
        self.model = model.train()
        self._device = next(model.parameters()).device
        self._batch = int(params["per_device_train_batch_size"])
        self.total_updates = max(1, -(-examples // self._batch))
        self._updates = self._asked = 0
        order = _epochs(len(data), self.total_updates * self._batch, int(params["seed"]))
        lengths = data.lengths[order].reshape(self.total_updates, self._batch).max(axis=1)
        widths = [w for w in _WIDTHS if w < data.ids.shape[1]] + [data.ids.shape[1]]
        self._widths = np.array(widths)[np.searchsorted(widths, lengths)]
        self._order = torch.from_numpy(order).to(self._device)
        self._ids = torch.from_numpy(data.ids).to(self._device)
        self._lengths = torch.from_numpy(data.lengths).to(self._device)
        self._labels = torch.from_numpy(data.labels).to(self._device)
        self._places = torch.arange(self._batch, device=self._device)
        self._done = torch.zeros((), dtype=torch.long, device=self._device)
        self._base_rate = float(params["learning_rate"])
        self._warm_up = math.ceil(float(params["warmup_ratio"]) * self.total_updates)
        self._rate = torch.zeros((), device=self._device)
        on_gpu = self._device.type == "cuda"
        self._mask = (
            _whole_mask if _takes_whole_masks(model, self._ids, self._lengths) else _plain_mask
        )
        self._weights = [p for p in self.model.parameters() if p.requires_grad]
        # the weights that the optimiser changes; on a CPU they are the model's own
        self._masters = [p.detach().clone() for p in self._weights] if on_gpu else self._weights
        if on_gpu:
            self.model.to(torch.bfloat16)
        self._optimiser = torch.optim.AdamW(
            _groups(self._masters, float(params["weight_decay"])),
            lr=self._rate,
            eps=float(params["adam_epsilon"]),
            fused=on_gpu,
            capturable=on_gpu,
        )
        self._graphs: dict[int, Any] = {}
        self._captures = on_gpu
        torch.manual_seed(int(params["seed"]))  # of dropout

    def steps(self, unit: int) -> int:
        """In how many calls of ``train(unit)`` all is trained; the last one may train less."""
        return (self.total_updates - 1) * self._batch // unit + 1

    def train(self, examples: int) -> None:
        """Train on so many more examples, in whole batches, or as many as are left."""
        self._asked += examples
        until = min(self.total_updates, -(-self._asked // self._batch))
        for width in self._widths[self._updates : until].tolist():
            graph = self._graph(width)
            if graph is None:
                self._update(width)
            else:
                graph.replay()
        self._updates = until

    def _update(self, width: int) -> None:
        """One step of the optimiser. Everything it needs is on the device."""
        torch = require_torch()
        rows = self._order[self._done * self._batch + self._places]
        ids = self._ids[rows, :width].long()
        inside = torch.arange(width, device=self._device) < self._lengths[rows, None]
        mask = self._mask(inside)
        for weight in self._weights:
            weight.grad = None
        logits = self.model(input_ids=ids, attention_mask=mask).logits
        torch.nn.functional.cross_entropy(logits.float(), self._labels[rows]).backward()
        if self._masters is not self._weights:
            for master in self._masters:
                master.grad = torch.empty_like(master)
            torch._foreach_copy_([m.grad for m in self._masters], [w.grad for w in self._weights])
        torch.nn.utils.clip_grad_norm_(self._masters, _MAX_NORM, foreach=True)
        self._schedule()
        self._optimiser.step()
        if self._masters is not self._weights:
            with torch.no_grad():
                torch._foreach_copy_(self._weights, self._masters)
        self._done += 1

    def _schedule(self) -> None:
        """Up to the learning rate in a straight line, and down to zero at the end."""
        torch = require_torch()
        done = self._done.float()
        down = (self.total_updates - done) / max(1, self.total_updates - self._warm_up)
        share = torch.minimum(done / self._warm_up, down) if self._warm_up else down
        self._rate.copy_(share.clamp(0.0, 1.0) * self._base_rate)

    def _graph(self, width: int) -> Any:
        """The captured step for that width, or None where none can be had."""
        if self._captures and width not in self._graphs:
            try:
                self._graphs[width] = self._capture(width)
            except RuntimeError as error:  # the model asks the host for something on its way
                self._captures = False
                message = f"{type(self.model).__name__} cannot be captured as a CUDA graph"
                warnings.warn(f"{message} and trains step by step: {error}", stacklevel=3)
        return self._graphs.get(width)

    def _capture(self, width: int) -> Any:
        torch = require_torch()
        kept = _state(self._masters, self._optimiser)
        before, seed = self._done.clone(), torch.cuda.get_rng_state(self._device)
        graph = torch.cuda.CUDAGraph()
        try:
            side = torch.cuda.Stream(self._device)
            side.wait_stream(torch.cuda.current_stream(self._device))
            with torch.cuda.stream(side):
                for _ in range(_WARM_UPS):
                    self._update(width)
            torch.cuda.current_stream(self._device).wait_stream(side)
            with torch.cuda.graph(graph):
                self._update(width)
        finally:
            # what the warm-ups did is undone in place, as the graph holds on to these tensors;
            # where the capture failed, training goes on from here too
            _restore(self._masters, self._optimiser, kept)
            with torch.no_grad():
                torch._foreach_copy_(self._weights, self._masters)
            self._done.copy_(before)
            torch.cuda.set_rng_state(seed, self._device)
        return graph


def _whole_mask(inside: Any) -> Any:
    """What is added to the scores of the attention: nothing has to be looked at on the host."""
    torch = require_torch()
    lowest = torch.finfo(torch.bfloat16).min  # fits every precision
    outside = torch.zeros(inside.shape, device=inside.device).masked_fill(~inside, lowest)
    if inside.device.type == "cuda":
        outside = outside.to(torch.bfloat16)
    return outside[:, None, None, :].expand(-1, 1, inside.shape[1], -1)


def _plain_mask(inside: Any) -> Any:
    """One for each token, as tokenizers give it."""
    return inside.long()


def _takes_whole_masks(model: Any, ids: Any, lengths: Any) -> bool:
    """Whether the model answers the same with a mask that is made for its attention already."""
    torch = require_torch()
    few, width = ids[:4].long(), int(lengths[:4].max())
    inside = torch.arange(width, device=ids.device) < lengths[:4, None]
    with evaluating(model), torch.no_grad():
        expected = model(input_ids=few[:, :width], attention_mask=_plain_mask(inside)).logits
        mask = _whole_mask(inside).to(expected.dtype)
        try:
            found = model(input_ids=few[:, :width], attention_mask=mask).logits
        except (RuntimeError, ValueError, IndexError, TypeError):
            return False
    return bool(torch.allclose(found, expected, atol=1e-5))


def _epochs(rows: int, examples: int, seed: int) -> Array:
    """The order of examples: all rows shuffled, again and again."""
    rng = np.random.default_rng(seed)
    epochs = -(-examples // rows)
    return np.concatenate([rng.permutation(rows) for _ in range(epochs)])[:examples]


def _groups(weights: Sequence[Any], weight_decay: float) -> list[dict[str, Any]]:
    """Biases and norms do not decay."""
    return [
        {"params": [w for w in weights if w.ndim > 1], "weight_decay": weight_decay},
        {"params": [w for w in weights if w.ndim <= 1], "weight_decay": 0.0},
    ]


def _state(weights: Sequence[Any], optimiser: Any) -> tuple[list[Any], list[dict[str, Any]]]:
    moments = [
        {name: value.clone() for name, value in optimiser.state.get(weight, {}).items()}
        for weight in weights
    ]
    return [weight.detach().clone() for weight in weights], moments


def _restore(
    weights: Sequence[Any], optimiser: Any, kept: tuple[list[Any], list[dict[str, Any]]]
) -> None:
    for weight, value, moments in zip(weights, *kept, strict=True):
        weight.data.copy_(value)
        for name, moment in optimiser.state.get(weight, {}).items():
            if name in moments:
                moment.copy_(moments[name])
            else:
                moment.zero_()
