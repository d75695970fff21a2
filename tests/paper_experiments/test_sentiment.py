"""Fine-tuning under a robustness limit: data, training, and the whole path on a tiny model."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import acetune
from acetune.constraints.robustness import TransformerPredictor, sentiment_suite
from acetune.core.errors import AcetuneError, GoalError
from acetune.replay.training import train_curve
from paper.tasks import load_task
from paper.tasks.finetuning import FineTuner, label_texts
from paper.tasks.pretrained import HubModel, TinyModel
from paper.tasks.sentiment import SentimentModel, made_sentiment, robustness
from paper.tasks.sst2 import made_sentences, read_sst2
from paper.tasks.vocabulary import CompactTokenizer, compact

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PARAMS = {
    "learning_rate": 2e-3,
    "num_train_epochs": 1.0,
    "per_device_train_batch_size": 8,
    "warmup_ratio": 0.25,
    "weight_decay": 0.1,
    "adam_epsilon": 1e-7,
    "seed": 41,
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _without_dropout(tiny: TinyModel) -> Any:
    torch.manual_seed(3)
    model = tiny.classifier()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if hasattr(part, "dropout_prob"):
            part.dropout_prob = 0.0
    model.config.attention_dropout = 0.0
    return model


def test_it_trains_as_a_plain_loop_with_the_schedule_of_transformers() -> None:
    sentences = made_sentences(40, seed=0)
    tiny = TinyModel.of(sentences.texts)
    tokenizer = tiny.tokenizer()
    data = label_texts(tokenizer, sentences.texts, sentences.labels)
    ours, plain = _without_dropout(tiny), _without_dropout(tiny)
    tuner = FineTuner(ours, data, PARAMS, 60)  # 8 updates, into the second epoch
    for _ in range(3):
        tuner.train(24)

    rng = np.random.default_rng(41)
    order = np.concatenate([rng.permutation(40), rng.permutation(40)])[:64]
    no_decay = [p for p in plain.parameters() if p.ndim <= 1]
    decay = [p for p in plain.parameters() if p.ndim > 1]
    optimiser = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": no_decay, "weight_decay": 0.0}],
        lr=2e-3,
        eps=1e-7,
    )
    schedule = transformers.get_linear_schedule_with_warmup(optimiser, 2, 8)
    plain.train()
    for batch in order.reshape(8, 8):
        encoded = tokenizer([sentences.texts[i] for i in batch], padding=True, return_tensors="pt")
        logits = plain(
            input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"]
        ).logits
        labels = torch.tensor([sentences.labels[i] for i in batch])
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(logits, labels).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimiser.step()
        schedule.step()
    assert (tuner.total_updates, tuner.steps(24)) == (8, 3)
    for mine, other in zip(ours.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=2e-5)


@pytest.mark.parametrize(
    ("batch", "examples", "unit"), [(32, 8000, 200), (32, 4010, 200), (4, 7, 6)]
)
def test_every_step_trains_something(batch: int, examples: int, unit: int) -> None:
    sentences = made_sentences(8, seed=0)
    tiny = TinyModel.of(sentences.texts)
    data = label_texts(tiny.tokenizer(), sentences.texts, sentences.labels)
    params = {**PARAMS, "per_device_train_batch_size": batch}
    tuner = FineTuner(tiny.classifier(), data, params, examples)
    made: list[int] = []
    tuner._update = lambda width: made.append(1)  # type: ignore[method-assign]
    counts = []
    for _ in range(tuner.steps(unit)):
        before = len(made)
        tuner.train(unit)
        counts.append(len(made) - before)
    assert sum(counts) == tuner.total_updates == math.ceil(examples / batch)
    assert min(counts) >= 1


class _NoStream:
    def __init__(self, *_: object) -> None: ...

    def wait_stream(self, other: object) -> None: ...


def test_a_model_that_cannot_be_captured_trains_step_by_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The GPU is played: its warm-ups run, and then the capture fails."""

    @contextlib.contextmanager
    def refused(graph: object) -> Iterator[None]:
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    cuda = torch.cuda
    monkeypatch.setattr(cuda, "get_rng_state", lambda device: torch.get_rng_state())
    monkeypatch.setattr(cuda, "set_rng_state", lambda state, device: torch.set_rng_state(state))
    monkeypatch.setattr(cuda, "Stream", _NoStream)
    monkeypatch.setattr(cuda, "current_stream", _NoStream)
    monkeypatch.setattr(cuda, "stream", lambda side: contextlib.nullcontext())
    monkeypatch.setattr(cuda, "CUDAGraph", object)
    monkeypatch.setattr(cuda, "graph", refused)
    sentences = made_sentences(40, seed=0)
    tiny = TinyModel.of(sentences.texts)
    data = label_texts(tiny.tokenizer(), sentences.texts, sentences.labels)
    models = []
    for captures in (False, True):
        torch.manual_seed(3)
        tuner = FineTuner(tiny.classifier(), data, PARAMS, 64)
        tuner._captures = captures
        expected = pytest.warns(UserWarning, match="cannot be captured.*not permitted")
        with expected if captures else contextlib.nullcontext():
            tuner.train(64)
        models.append(tuner.model)
    for mine, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(mine, other)  # dropout included: the generator was put back


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # when DeBERTa is imported
@pytest.mark.parametrize("kind", ["sdpa", "eager", "deberta"])
def test_padding_is_masked_in_every_attention(kind: str) -> None:
    """A text alone and the same text padded get the same gradient."""
    sentences = made_sentences(4, seed=0)
    tiny = TinyModel.of(sentences.texts)
    data = label_texts(tiny.tokenizer(), sentences.texts, sentences.labels)
    torch.manual_seed(0)
    if kind == "deberta":
        config = transformers.DebertaV2Config(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        model = transformers.DebertaV2ForSequenceClassification(config)
    else:
        model = _without_dropout(tiny)
        model.config._attn_implementation = kind
    params = {**PARAMS, "per_device_train_batch_size": 4, "warmup_ratio": 0.0}
    start = copy.deepcopy(model.state_dict())
    trained = []
    for padding in (0, 40):
        model.load_state_dict(start)
        ids = np.pad(data.ids, ((0, 0), (0, padding)))
        tuner = FineTuner(model, dataclasses.replace(data, ids=ids), params, 4)
        tuner._widths[:] = ids.shape[1]
        tuner.train(4)
        trained.append(copy.deepcopy(model.state_dict()))
    for name, value in trained[0].items():
        assert torch.allclose(value, trained[1][name], atol=2e-5), name
    assert any(not torch.equal(value, start[name]) for name, value in trained[0].items())


def test_a_compact_model_answers_the_same() -> None:
    texts = ("a fun film", "dull story!", "fun and dull")
    tiny = TinyModel.of((*texts, "words that nobody of the task ever uses"))
    torch.manual_seed(0)
    whole = tiny.classifier()
    expected = TransformerPredictor(tiny.tokenizer())(whole, texts)
    tokenizer = CompactTokenizer(tiny.tokenizer(), texts)
    rows = whole.get_input_embeddings().weight.shape[0]
    small = compact(whole, tokenizer)
    assert small.get_input_embeddings().weight.shape[0] == len(tokenizer.tokens) < rows
    assert np.array_equal(TransformerPredictor(tokenizer)(small, texts), expected)
    # a word that was not kept is an unknown one
    known, unknown = tokenizer(["fun"])["input_ids"][0], tokenizer(["nobody"])["input_ids"][0]
    assert known[0] == unknown[0]
    assert known[1] != unknown[1]


def test_the_whole_path_is_recorded_on_a_tiny_model() -> None:
    task = robustness()
    params = {**PARAMS, "per_device_train_batch_size": 16, "learning_rate": 4e-3}
    curve = train_curve(task, params)
    assert curve.total_steps == len(curve.cost_s) == 10
    assert curve.metrics["accuracy"][-1] > 0.8 > curve.metrics["accuracy"][0]
    assert ((curve.metrics["afr"] >= 0) & (curve.metrics["afr"] <= 1)).all()
    assert len(set(curve.metrics["afr"])) > 2
    again = train_curve(task, params)
    assert np.array_equal(again.metrics["accuracy"], curve.metrics["accuracy"])
    assert np.array_equal(again.metrics["afr"], curve.metrics["afr"])


def test_it_is_tuned_and_the_model_is_kept(tmp_path: Path) -> None:
    task = robustness()
    result = acetune.tune(
        task.train,
        space={**PARAMS, "learning_rate": 8e-3, "num_train_epochs": acetune.choice([0.2, 0.3])},
        objective=task.objective,
        mode=task.mode,
        constraints=[acetune.Constraint("afr", upper=0.5, check=task.constraints[0].check)],
        max_trials=2,
        workers=1,
        threads=1,
        study=tmp_path / "study.db",
        progress=False,
    )
    assert result.best is not None
    model = result.best.load()
    assert isinstance(model, SentimentModel)
    assert made_sentiment().accuracy(model) == pytest.approx(result.best.value)


def _glue(folder: Path, train: str, dev: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "train.tsv.gz").write_bytes(gzip.compress(train.encode()))
    (folder / "dev.tsv").write_text(dev)
    return folder


def test_the_files_of_glue_are_read(tmp_path: Path) -> None:
    folder = _glue(
        tmp_path, 'sentence\tlabel\nsays "so \t1\nbad \t0\n', "sentence\tlabel\nfine \t1\n"
    )
    train, dev = read_sst2(folder)
    assert (train.texts, train.labels) == (('says "so ', "bad "), (1, 0))
    assert (dev.texts, dev.labels) == (("fine ",), (1,))


def test_real_files_and_a_model_folder_make_the_task(tmp_path: Path) -> None:
    """Everything as the user gives it: GLUE's files, a model's folder, the suite's file."""
    sentences = made_sentences(60, seed=0)
    lines = "".join(f"{t}\t{y}\n" for t, y in zip(sentences.texts, sentences.labels, strict=True))
    folder = _glue(tmp_path / "sst2", "sentence\tlabel\n" + lines, "sentence\tlabel\n" + lines)
    tiny = TinyModel.of((*sentences.texts, *sentiment_suite(5).texts))
    tiny.classifier().save_pretrained(tmp_path / "model")
    tiny.tokenizer().save_pretrained(tmp_path / "model")
    suite = tmp_path / "suite.jsonl"
    suite.write_text(_paper_suite())
    task = load_task("robustness", folder, model=str(tmp_path / "model"), suite=suite)
    params = {**PARAMS, "per_device_train_batch_size": 32}
    curve = train_curve(task, params)
    assert len(curve.cost_s) == 1  # 60 sentences are less than a unit
    assert math.isfinite(curve.metrics["afr"][0])


def _paper_suite() -> str:
    import json

    from acetune.constraints.robustness import PAPER_TESTS

    lines = []
    for name in PAPER_TESTS:
        directional = name in ("intensifiers", "add positive phrases", "add negative phrases")
        kind = "DIR" if directional else "MFT" if "words" in name and "BERT" not in name else "INV"
        data: list[Any] = ["fun", "dull"] if kind == "MFT" else [["fun", "fun!"], ["dull", "Dull"]]
        labels = 1 if kind == "MFT" else None
        lines.append(json.dumps({"name": name, "type": kind, "labels": labels, "data": data}))
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ("text\tlabel\nx\t1\n", ["header", "text"]),
        ("sentence\tlabel\nx\t2\n", ["line 2", "'2'"]),
        ("sentence\tlabel\nx\n", ["line 2"]),
        ("sentence\tlabel\n", ["no sentences"]),
    ],
)
def test_bad_files_are_named(tmp_path: Path, train: str, words: list[str]) -> None:
    folder = _glue(tmp_path, train, "sentence\tlabel\nx\t1\n")
    with pytest.raises(AcetuneError) as caught:
        read_sst2(folder)
    for word in ("train.tsv", *words):
        assert word in str(caught.value)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(AcetuneError, match=r"no train\.tsv"):
        read_sst2(tmp_path)
    with pytest.raises(AcetuneError, match="suite of behavioural tests is missing"):
        robustness(tmp_path)
    with pytest.raises(AcetuneError, match="go with real sentences"):
        robustness(model="somewhere")
    with pytest.raises(AcetuneError, match=r"cannot load the model .*nowhere"):
        HubModel(str(tmp_path / "nowhere")).tokenizer()
    with pytest.raises(GoalError, match="confirm-rows is for credit-lightgbm, law-mlp"):
        load_task("robustness", confirm_rows=5)
    with pytest.raises(GoalError, match="suite is for robustness"):
        load_task("law-mlp", suite=tmp_path)
