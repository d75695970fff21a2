"""Where a text classifier starts from: a pretrained model, or a tiny one made by code."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from acetune.constraints.robustness.transformer import require_torch
from acetune.core.errors import AcetuneError, MissingExtraError

DISTILBERT = "distilbert-base-uncased"


class Pretrained(Protocol):
    """What a worker makes its tokenizer and its models from; it travels there, so it is light."""

    def tokenizer(self) -> Any:
        """As ``AutoTokenizer`` gives it."""

    def classifier(self) -> Any:
        """A new sequence classifier of two classes; its head is drawn from torch's generator."""


@dataclass(frozen=True)
class HubModel:
    """A model of Hugging Face: a folder, or a name on the hub."""

    source: str = DISTILBERT

    def tokenizer(self) -> Any:
        """See Pretrained."""
        return self._load(require_transformers().AutoTokenizer)

    def classifier(self) -> Any:
        """See Pretrained. Weights are single precision, whatever they were kept in."""
        transformers = require_transformers()
        transformers.logging.set_verbosity_error()  # that the head is new is what we want
        transformers.logging.disable_progress_bar()
        auto = transformers.AutoModelForSequenceClassification
        return self._load(auto, num_labels=2, dtype=require_torch().float32)

    def _load(self, auto: Any, **options: Any) -> Any:
        try:
            return auto.from_pretrained(self.source, **options)
        except (OSError, ValueError) as error:
            raise AcetuneError(
                f"cannot load the model {self.source!r}: {error}. Give the folder of a model of "
                "Hugging Face (config.json, weights, tokenizer), or a name on the hub where that "
                "can be reached"
            ) from None


@dataclass(frozen=True)
class TinyModel:
    """Two small layers, untrained, that know the given words: for tests and for a first look."""

    words: tuple[str, ...]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TinyModel:
        """One that knows every word of the texts."""
        found = {word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())}
        return cls(tuple(sorted(found)))

    def tokenizer(self) -> Any:
        """See Pretrained: words and punctuation marks, in small letters."""
        kit = importlib.import_module("tokenizers")
        special = ("[PAD]", "[UNK]", "[CLS]")
        numbers = {word: i for i, word in enumerate((*special, *self.words))}
        found = kit.Tokenizer(kit.models.WordLevel(numbers, unk_token="[UNK]"))
        found.normalizer = kit.normalizers.Lowercase()
        found.pre_tokenizer = kit.pre_tokenizers.Whitespace()
        found.post_processor = kit.processors.TemplateProcessing(
            single="[CLS] $A", special_tokens=[("[CLS]", 2)]
        )
        return require_transformers().PreTrainedTokenizerFast(
            tokenizer_object=found, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]"
        )

    def classifier(self) -> Any:
        """See Pretrained."""
        transformers = require_transformers()
        config = transformers.DistilBertConfig(
            vocab_size=len(self.words) + 3, dim=32, n_layers=2, n_heads=2, hidden_dim=64
        )
        return transformers.DistilBertForSequenceClassification(config)


def require_transformers() -> Any:
    """Hugging Face's transformers, or an error that names the install command."""
    try:
        return importlib.import_module("transformers")
    except ImportError:
        raise MissingExtraError("transformers", "transformers") from None
