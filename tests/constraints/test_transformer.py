"""Predictions of a transformer: the same as text by text, and tokenised once."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from acetune.constraints.robustness import RobustnessCheck, TransformerPredictor, sentiment_suite
from acetune.core.errors import GoalError
from acetune.testing import check_constraint
from paper.tasks.pretrained import TinyModel

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

TEXTS = ("a fun film", "dull", "this story is not what the critic said it would be", "fun!", "dull")


class Counting:
    """A tokenizer that notes what it was asked for."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.pad_token_id = tokenizer.pad_token_id
        self.seen: list[str] = []

    def __call__(self, texts: list[str], **options: Any) -> Any:
        self.seen += texts
        return self._tokenizer(texts, **options)


@pytest.fixture(scope="module")
def tiny() -> TinyModel:
    return TinyModel.of((*TEXTS, *sentiment_suite(5).texts))


@pytest.fixture(scope="module")
def network(tiny: TinyModel) -> Any:
    torch.manual_seed(0)
    return tiny.classifier()


@pytest.mark.parametrize("batch_tokens", [1, 20, 10_000])
def test_batches_answer_as_text_by_text(tiny: TinyModel, network: Any, batch_tokens: int) -> None:
    tokenizer = tiny.tokenizer()
    predictor = TransformerPredictor(tokenizer, batch_tokens=batch_tokens)
    found = predictor(network, TEXTS)
    network.eval()
    for text, row in zip(TEXTS, found, strict=True):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            alone = network(
                input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]
            ).logits.softmax(-1)[0]
        assert row == pytest.approx(alone.numpy(), abs=1e-5)


def test_the_network_is_left_as_it_was(tiny: TinyModel, network: Any) -> None:
    predictor = TransformerPredictor(tiny.tokenizer())
    network.train()
    first = predictor(network, TEXTS)
    assert network.training
    assert np.array_equal(first, predictor(network, TEXTS))  # without dropout
    network.eval()
    predictor(network, TEXTS)
    assert not network.training


def test_no_text_is_tokenised_twice(tiny: TinyModel, network: Any) -> None:
    tokenizer = Counting(tiny.tokenizer())
    suite = sentiment_suite(5)
    check = RobustnessCheck(suite, TransformerPredictor(tokenizer))
    first = check(network)
    assert check(network) == first
    assert sorted(tokenizer.seen) == sorted(suite.texts)


def test_tokens_stay_behind_when_it_travels(tiny: TinyModel, network: Any) -> None:
    predictor = TransformerPredictor(tiny.tokenizer())
    expected = predictor(network, TEXTS)
    large = tuple(f"fun film {number}" for number in range(2_000))
    before = len(pickle.dumps(predictor))
    predictor.encode(large, torch.device("cpu"))
    kept = pickle.dumps(predictor)
    assert len(kept) < before + 1_000
    assert np.array_equal(pickle.loads(kept)(network, TEXTS), expected)


def test_a_robustness_check_keeps_to_the_protocol(tiny: TinyModel, network: Any) -> None:
    check = RobustnessCheck(sentiment_suite(5), TransformerPredictor(tiny.tokenizer()))
    check_constraint(check, network)


def test_bad_input_is_refused(tiny: TinyModel, network: Any) -> None:
    with pytest.raises(GoalError, match="'bert'"):
        TransformerPredictor("bert")
    with pytest.raises(GoalError, match=r"batch_tokens.*0"):
        TransformerPredictor(tiny.tokenizer(), batch_tokens=0)
    with pytest.raises(GoalError, match="no texts"):
        TransformerPredictor(tiny.tokenizer())(network, ())
