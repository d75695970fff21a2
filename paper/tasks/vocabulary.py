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

_FEW = 2_000


class CompactTokenizer:
    """A tokenizer whose ids count only the tokens that were used; called as the original is.

    The padding token and those before it keep their numbers, by which models know them. What was
    tokenised to find out is kept, and not tokenised again.
    """

    def __init__(self, tokenizer: Any, texts: Iterable[str], max_length: int = 128) -> None:
        self._tokenizer = tokenizer
        self._options = {"truncation": True, "max_length": max_length}
        known = list(dict.fromkeys(texts))
        found = tokenizer(known, **self._options)["input_ids"]
        self.pad_token_id = int(tokenizer.pad_token_id or 0)  # what fills up short texts
        if self.pad_token_id < _FEW:
            used = {token for row in found for token in row} | set(range(self.pad_token_id + 1))
            unknown = tokenizer.unk_token_id
            used.add(self.pad_token_id if unknown is None else unknown)
        else:  # somewhere at the end: nothing can be cut
            used, unknown = set(range(len(tokenizer))), tokenizer.unk_token_id
        self.tokens = np.array(sorted(used))  # the original ids, by the new ones
        self._new = {int(old): new for new, old in enumerate(self.tokens)}
        self._unknown = self._new[self.pad_token_id if unknown is None else unknown]
        self._rows = {text: self._renumber(row) for text, row in zip(known, found, strict=True)}

    def __call__(self, texts: Sequence[str], **options: Any) -> dict[str, list[list[int]]]:
        """Token ids; a token that no text of the task has becomes the unknown one."""
        rows = self._rows if options == self._options else {}
        missing = [text for text in texts if text not in rows]
        if not missing:
            return {"input_ids": [rows[text] for text in texts]}
        found = self._tokenizer(list(texts), **options)["input_ids"]
        return {"input_ids": [self._renumber(row) for row in found]}

    def _renumber(self, row: Sequence[int]) -> list[int]:
        return [self._new.get(token, self._unknown) for token in row]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_rows": {}}  # a model that is kept needs no texts


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
    model.config.pad_token_id = tokenizer.pad_token_id
    return model
