"""Checkpoints of sentiment models for ``certificates_real.py``, and studies on them.

A pretrained sentence model embeds phrases of SST-2 and the texts of CheckList's suite once; heads
of random configurations are trained on the embeddings. The population has two parts: phrases that
no head was trained on, for the accuracy, and the cases of the suite, for the failure rate.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acetune.certification.evidence import Parts
from acetune.constraints.robustness.building import load_checklist
from acetune.constraints.robustness.suite import RULES, Answers, Suite
from benchmarks.common import say
from paper.tasks.sst2 import read_sst2

Array = NDArray[Any]
TRAINED, HELD = 20_000, 10_000  # phrases
CONFIGURATIONS, EPOCHS = 40, (1, 2, 4, 8, 16, 32)


class SentimentTable(NamedTuple):
    """What all checkpoints said of the population."""

    config: Array  # of each checkpoint
    right: Array  # checkpoints x phrases: the answer is right
    counted: list[Array]  # of each test, checkpoints x cases: it counts
    failed: list[Array]  # and it fails


def record_sst2(data: Path, suite: Path, model: Path, kept: Path | None) -> SentimentTable:
    """Embed all texts, or read that from ``kept``; then train heads and judge them."""
    train, _ = read_sst2(data)
    rows = np.random.default_rng(0).permutation(len(train))[: TRAINED + HELD]
    labels = np.array(train.labels)[rows]
    tests = load_checklist(suite)
    texts = [*(train.texts[row] for row in rows), *tests.texts]
    if kept is not None and kept.exists():
        vectors = np.load(kept)["vectors"].astype(np.float32)
    else:
        vectors = embedded(model, texts)
        if kept is not None:
            np.savez(kept, vectors=vectors.astype(np.float16))
    return heads(vectors, labels, tests)


def embedded(model: Path, texts: Sequence[str], tokens: int = 16_384) -> Array:
    """The mean of the last layer over the tokens of each text, of length 1."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModel.from_pretrained(model, dtype=torch.float32).eval()
    ids = tokenizer(list(texts), truncation=True, max_length=64)["input_ids"]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    found = np.empty((len(ids), network.config.hidden_size), np.float32)
    place = 0
    while place < len(order):
        longest = len(ids[order[min(len(order) - 1, place + 63)]])
        batch = order[place : place + max(64, tokens // longest)]
        longest = len(ids[batch[-1]])
        padded = torch.zeros((len(batch), longest), dtype=torch.long)
        mask = torch.zeros((len(batch), longest))
        for row, i in enumerate(batch):
            padded[row, : len(ids[i])] = torch.tensor(ids[i])
            mask[row, : len(ids[i])] = 1.0
        with torch.inference_mode():
            last = network(input_ids=padded, attention_mask=mask.long()).last_hidden_state
        mean = (last * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        found[batch] = torch.nn.functional.normalize(mean, dim=1).numpy()
        place += len(batch)
        if (place // len(batch)) % 20 == 0:
            say(f"{place:,} of {len(order):,} texts")
    return found


def heads(vectors: Array, labels: Array, suite: Suite) -> SentimentTable:
    """Train heads of random configurations, and judge each after some of its epochs."""
    import torch

    torch.set_num_threads(1)  # small batches: two threads would wait for each other
    rng = np.random.default_rng(7)
    x, y = torch.from_numpy(vectors[:TRAINED]), torch.from_numpy(labels[:TRAINED]).float()
    rest = torch.from_numpy(vectors[TRAINED:])
    config, right = [], []
    counted: list[list[Array]] = [[] for _ in suite.tests]
    failed: list[list[Array]] = [[] for _ in suite.tests]
    for number in range(CONFIGURATIONS):
        torch.manual_seed(number)
        width, dropout = int(2 ** rng.uniform(3, 8)), rng.uniform(0.0, 0.5)
        head = torch.nn.Sequential(
            torch.nn.Linear(x.shape[1], width), torch.nn.ReLU(), torch.nn.Dropout(dropout),
            torch.nn.Linear(width, 1),
        )  # fmt: skip
        rate, decay = 10 ** rng.uniform(-4, -2), 10 ** rng.uniform(-4, 0)
        smooth, noise = rng.uniform(0.0, 0.4), rng.uniform(0.0, 0.06)
        optimiser = torch.optim.AdamW(head.parameters(), lr=rate, weight_decay=decay)
        aims = y * (1 - smooth) + smooth / 2
        for epoch in range(1, max(EPOCHS) + 1):
            head.train()
            for batch in torch.randperm(TRAINED).split(128):
                moved = x[batch] + noise * torch.randn(len(batch), x.shape[1])
                loss = torch.nn.functional.binary_cross_entropy_with_logits(
                    head(moved).squeeze(1), aims[batch]
                )
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            if epoch not in EPOCHS:
                continue
            head.eval()
            with torch.inference_mode():
                positive = torch.sigmoid(head(rest).squeeze(1)).double().numpy()
            config.append(number)
            right.append((positive[:HELD] > 0.5) == (labels[TRAINED:] > 0.5))
            for place, (counts, fails) in enumerate(judged(suite, positive[HELD:])):
                counted[place].append(counts)
                failed[place].append(fails & counts)
        say(f"{number + 1} of {CONFIGURATIONS} heads")
    return SentimentTable(
        np.array(config), np.array(right), [np.array(one) for one in counted],
        [np.array(one) for one in failed],
    )  # fmt: skip


def judged(suite: Suite, positive: Array) -> list[tuple[Array, Array]]:
    """For each test, which of its cases count, and which fail."""
    answers, found = Answers(positive), []
    place = {text: i for i, text in enumerate(suite.texts)}
    for test in suite.tests:
        first = np.array([place[case[0]] for case in test.cases])
        if test.labels is not None:
            failed = answers.labels[first] != np.array(test.labels)
            found.append((np.ones(len(failed), bool), failed))
            continue
        assert test.rule is not None
        pairs = [(n, i, place[v]) for n, (case, i) in enumerate(zip(test.cases, first, strict=True))
                 for v in case[1:]]  # fmt: skip
        case, original, variant = np.array(pairs).T
        fails, left_out = RULES[test.rule](answers, original, variant)
        size = len(test.cases)
        counted = np.bincount(case[~left_out], minlength=size) > 0
        found.append((counted, np.bincount(case[fails & ~left_out], minlength=size) > 0))
    return found


class Sentiment:
    """The population: accuracy is the objective, the average failure rate has the limit."""

    def __init__(self, table: SentimentTable) -> None:
        self.config, self._table = table.config, table
        self.right = table.right.astype(np.float32)
        self.value = table.right.mean(axis=1)
        shares = [f.sum(1) / np.maximum(1, c.sum(1)) for c, f in self._tests()]
        self.truth: Array = np.mean(shares, axis=0)
        # a head that has learned little calls everything neutral, and fails few tests
        self.telling: Array = np.mean(shares[3:5], axis=0) < 0.5  # words with and without sentiment

    shares = (0.6, 0.8)  # below, the limit costs no accuracy

    def _tests(self) -> list[tuple[Array, Array]]:
        return list(zip(self._table.counted, self._table.failed, strict=True))

    def draw(self, rng: np.random.Generator, rows: int) -> SentimentSample:
        """So many phrases, and as many cases in equal parts of all tests, with replacement."""
        size = self.right.shape[1]
        weights = rng.multinomial(rows, np.full(size, 1 / size)).astype(np.float32)
        each, cases, fails = rows // len(self._table.counted), [], []
        for counted, failed in self._tests():
            number = counted.shape[1]
            drawn = rng.multinomial(each, np.full(number, 1 / number)).astype(np.float32)
            cases.append(counted.astype(np.float32) @ drawn)
            fails.append(failed.astype(np.float32) @ drawn)
        return SentimentSample(self.right @ weights / rows, np.array(fails), np.array(cases))


class SentimentSample(NamedTuple):
    """What rows of a study say of all checkpoints."""

    value: Array  # accuracy
    fails: Array  # tests x checkpoints
    cases: Array

    @property
    def measured(self) -> tuple[Array, Array]:
        """The average failure rate and its standard error, as RobustnessCheck gives them."""
        cases = np.maximum(1, self.cases)
        p = (self.fails + 1) / (self.cases + 2)
        error = np.sqrt((p * (1 - p) / cases).sum(axis=0)) / len(cases)
        value: Array = (self.fails / cases).mean(axis=0)
        return value, error

    def p_value(self, place: int, limit: float) -> float:
        """The package's own test: each case that was drawn is a source sentence of its own."""
        tests, parts, weights = len(self.cases), [], []
        for fails, cases in zip(self.fails[:, place], self.cases[:, place], strict=True):
            if cases < 1:
                return 1.0  # every case of a test was left out
            weight = 1 / (tests * cases)
            parts += [weight] * int(fails) + [0.0] * int(cases - fails)
            weights += [weight] * int(cases)
        return Parts(tuple(parts), tuple(weights)).p_value(limit, "<=")

    def passes_nearly(self, limit: float, level: float) -> Array:
        """The same test of all checkpoints at once, by the inequality of Hoeffding in it."""
        cases = np.maximum(1, self.cases)
        value = (self.fails / cases).mean(axis=0)
        # the sum of squared weights: each test has `cases` of 1 / (tests * cases)
        effective = 1 / ((1 / cases).sum(axis=0) / len(cases) ** 2)
        a = np.clip(value, 1e-9, 1 - 1e-9)
        apart = a * np.log(a / limit) + (1 - a) * np.log((1 - a) / (1 - limit))
        found: Array = (value < limit) & (np.exp(-effective * apart) <= level)
        return found
