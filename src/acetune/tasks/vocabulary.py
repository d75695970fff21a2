"""A tokenizer and a model cut down to the tokens that some text of a task uses.

A pretrained vocabulary has tens of thousands of tokens, and in a small model most weights are
theirs. Those that no text uses never get a gradient, but the optimiser goes through them at every
step. Without them the model answers the same and trains the same; the weights alone that are never
looked up do not decay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from acetune.constraints.robustness.transformer import require_torch


class CompactTokenizer:
    """A tokenizer whose ids count only the tokens that were used; called as the original is."""

    def __init__(self, tokenizer: Any, texts: Iterable[str], max_length: int = 128) -> None:
        self._tokenizer = tokenizer
        found = tokenizer(list(texts), truncation=True, max_length=max_length)["input_ids"]
        used = {token for row in found for token in row}
        self._old_pad = tokenizer.pad_token_id or 0
        used.add(self._old_pad)
        if tokenizer.unk_token_id is not None:
            used.add(tokenizer.unk_token_id)
        self.tokens = np.array(sorted(used))  # the original ids, by the new ones
        unknown = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else self._old_pad
        self._new = {int(old): new for new, old in enumerate(self.tokens)}
        self._unknown = self._new[unknown]

    @property
    def pad_token_id(self) -> int:
        """What fills up short texts."""
        return self._new[self._old_pad]

    def __call__(self, texts: Sequence[str], **options: Any) -> dict[str, list[list[int]]]:
        """Token ids; a token that no text of the task has becomes the unknown one."""
        found = self._tokenizer(texts, **options)["input_ids"]
        new, unknown = self._new, self._unknown
        return {"input_ids": [[new.get(token, unknown) for token in row] for row in found]}


def compact(model: Any, tokenizer: CompactTokenizer) -> Any:
    """The model with the rows of its embedding that the tokenizer uses, in place."""
    torch = require_torch()
    old = model.get_input_embeddings()
    rows = torch.from_numpy(tokenizer.tokens).to(old.weight.device)
    padding = None if old.padding_idx is None else tokenizer.pad_token_id
    new = torch.nn.Embedding(len(rows), old.weight.shape[1], padding_idx=padding)
    new.weight.data = old.weight.detach()[rows].clone()
    model.set_input_embeddings(new.to(old.weight.device))
    model.config.vocab_size = len(rows)
    return model
