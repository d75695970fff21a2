"""Predictions of a transformer: every text is tokenised once, batches hold texts of like length."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.core.errors import GoalError
from acetune.core.import_on_use import import_extra
from acetune.core.numbers import require_whole

Array = NDArray[Any]


@dataclass(frozen=True)
class EncodedTexts:
    """Texts as token ids: longest first, padded to multiples of eight, on their device."""

    order: Array  # place of each row among the texts
    batches: tuple[tuple[Any, Any], ...]  # ids and mask

    def __len__(self) -> int:
        return len(self.order)


class TransformerPredictor:
    """Class probabilities of texts, from a sequence classifier of Hugging Face or one like it.

    Parameters
    ----------
    tokenizer:
        As ``AutoTokenizer`` gives it: called with a list of texts, it returns ``input_ids``.
    batch_tokens:
        So many tokens, padding included, go through the model at once.
    max_length:
        Longer texts are cut.
    autocast:
        Whether a GPU computes in bfloat16.
    unwrap:
        Takes the model to call out of what was reported; by default it is the model itself.

    The tokens of texts that were seen before are kept, so that only the first check tokenises.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        batch_tokens: int = 32_768,
        max_length: int = 128,
        autocast: bool = True,
        unwrap: Callable[[Any], Any] | None = None,
    ) -> None:
        if not callable(tokenizer):
            raise GoalError(f"tokenizer must be callable as AutoTokenizer's are, got {tokenizer!r}")
        for name, value in (("batch_tokens", batch_tokens), ("max_length", max_length)):
            require_whole(name, value, least=1)
        self._tokenizer, self._unwrap = tokenizer, unwrap
        self._batch_tokens, self._max_length = batch_tokens, max_length
        self._autocast = autocast
        self._encoded: dict[tuple[tuple[str, ...], str], EncodedTexts] = {}

    def __call__(self, model: Any, texts: Sequence[str]) -> Array:
        """One row of probabilities a text."""
        torch = require_torch()
        network = model if self._unwrap is None else self._unwrap(model)
        device = next(network.parameters()).device
        encoded = self.encode(texts, device)
        with evaluating(network), torch.inference_mode(), self._precision(torch, device):
            found = [
                network(input_ids=ids, attention_mask=mask).logits.float().softmax(dim=-1)
                for ids, mask in encoded.batches
            ]
        # one copy from the device at the end: it waits there once, and not at every batch
        in_order = torch.cat(found).cpu().numpy()
        probabilities: Array = np.empty_like(in_order)
        probabilities[encoded.order] = in_order
        return probabilities

    def encode(self, texts: Sequence[str], device: Any) -> EncodedTexts:
        """The texts as batches of token ids; those of the same texts are kept."""
        key = (tuple(texts), str(device))
        if key not in self._encoded:
            self._encoded[key] = self._tokenise(key[0], device)
        return self._encoded[key]

    def _tokenise(self, texts: tuple[str, ...], device: Any) -> EncodedTexts:
        torch = require_torch()
        if not texts:
            raise GoalError("there are no texts to predict")
        ids = self._tokenizer(list(texts), truncation=True, max_length=self._max_length)
        tokens = [list(row) for row in ids["input_ids"]]
        padding = getattr(self._tokenizer, "pad_token_id", None) or 0
        order = np.argsort([-len(row) for row in tokens], kind="stable")
        batches = []
        for rows in _batches([tokens[i] for i in order], self._batch_tokens):
            width = _padded(len(rows[0]))
            padded = np.full((len(rows), width), padding, dtype=np.int64)
            mask = np.zeros_like(padded)
            for i, row in enumerate(rows):
                padded[i, : len(row)] = row
                mask[i, : len(row)] = 1
            batches.append((torch.from_numpy(padded).to(device), torch.from_numpy(mask).to(device)))
        return EncodedTexts(order, tuple(batches))

    def _precision(self, torch: Any, device: Any) -> Any:
        use = self._autocast and device.type == "cuda"
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=use)

    def _identity(self) -> dict[str, Any]:
        """What its answers depend on: a study that goes on compares it."""
        given = {"max_length": self._max_length, "autocast": self._autocast}
        return given | {"unwrap": self._unwrap, "tokenizer": self._tokenizer}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoded": {}}  # tokens are made again where it is used


def _padded(length: int) -> int:
    """The next multiple of eight."""
    return max(8, -(-length // 8) * 8)


def _batches(rows: list[list[int]], batch_tokens: int) -> Iterator[list[list[int]]]:
    """Rows, longest first, cut so that no batch holds more tokens, unless one row does."""
    start = 0
    while start < len(rows):
        count = max(1, batch_tokens // _padded(len(rows[start])))
        yield rows[start : start + count]
        start += count


@contextlib.contextmanager
def evaluating(network: Any) -> Iterator[None]:
    """A network in evaluation mode, and back to how it was."""
    was_training = network.training
    network.eval()
    try:
        yield
    finally:
        network.train(was_training)


def require_torch() -> Any:
    """PyTorch, or an error that names the install command."""
    return import_extra("torch", "PyTorch", "torch")
