"""Sentiment with a transformer under a robustness limit: the second experiment of the ACE paper.

A pretrained model is fine-tuned on GLUE's SST-2; the limit is on its average failure rate (AFR)
over behavioural tests. Without data, sentences, model and tests are made by code.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acetune.constraints.robustness.building import load_checklist, sentiment_suite
from acetune.constraints.robustness.suite import RobustnessCheck, Suite
from acetune.constraints.robustness.transformer import TransformerPredictor, require_torch
from acetune.core.errors import AcetuneError
from acetune.core.goals import Constraint
from acetune.replay.training import Task
from acetune.searchers.space import Dimension, choice, loguniform, uniform
from acetune.trial.trial import Trial
from paper.tasks.finetuning import FineTuner, Labelled, label_texts
from paper.tasks.pretrained import (
    DISTILBERT,
    HubModel,
    Pretrained,
    TinyModel,
    require_transformers,
)
from paper.tasks.sst2 import Sentences, made_sentences, read_sst2
from paper.tasks.vocabulary import CompactTokenizer, compact

Array = NDArray[Any]


class SentimentModel:
    """A fine-tuned classifier with its tokenizer. It is the one being trained: a copy is deep."""

    def __init__(self, network: Any, predictor: TransformerPredictor) -> None:
        self.network, self._predictor = network, predictor

    def predict(self, texts: Sequence[str]) -> Array:
        """P(negative) and P(positive) of each text."""
        return self._predictor(self, texts)

    def __deepcopy__(self, memo: dict[int, Any]) -> SentimentModel:
        return SentimentModel(copy.deepcopy(self.network, memo), self._predictor)


@dataclass(frozen=True)
class SentimentTask:
    """Fine-tuning, accuracy on the development sentences, and the check."""

    train_set: Sentences
    dev_set: Sentences
    suite: Suite
    pretrained: Pretrained
    unit: int = 6_400  # examples a step
    max_epochs: float = 10.0

    @property
    def space(self) -> dict[str, Dimension]:
        """The paper's search space."""
        return {
            "learning_rate": loguniform(1e-6, 1e-3),
            "num_train_epochs": loguniform(0.1, self.max_epochs),
            "per_device_train_batch_size": choice([4, 8, 16, 32]),
            "warmup_ratio": uniform(0.0, 0.3),
            "weight_decay": uniform(0.0, 0.3),
            "adam_epsilon": loguniform(1e-8, 1e-6),
            "seed": choice([40, 41, 42, 43, 44]),
        }

    def train(self, trial: Trial) -> None:
        """One step is ``unit`` examples, or what is left of them."""
        torch = require_torch()
        params = trial.params
        examples = max(1, round(params["num_train_epochs"] * len(self.train_set)))
        torch.set_num_threads(trial.threads)
        device = trial.device or ("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(params["seed"])  # of the classifier's head
        network = compact(self.pretrained.classifier(), self.tokenizer).to(device)
        model = SentimentModel(network, self.predictor)
        tuner = FineTuner(network, self._encoded, params, examples)
        for _ in trial.steps(tuner.steps(self.unit)):
            tuner.train(self.unit)
            trial.report(accuracy=self.accuracy(model), model=model, snapshot=copy.deepcopy)

    def accuracy(self, model: SentimentModel) -> float:
        """On the development sentences."""
        probabilities = model.predict(self.dev_set.texts)
        return float((probabilities.argmax(axis=1) == np.array(self.dev_set.labels)).mean())

    @functools.cached_property
    def check(self) -> RobustnessCheck:
        """The average failure rate over the suite."""
        return RobustnessCheck(self.suite, self.predictor)

    @functools.cached_property
    def predictor(self) -> TransformerPredictor:
        """For the development sentences and the suite: each text is tokenised once a worker."""
        return TransformerPredictor(self.tokenizer, unwrap=operator.attrgetter("network"))

    @functools.cached_property
    def tokenizer(self) -> CompactTokenizer:
        """Of the tokens that some text of the task uses."""
        texts = (*self.train_set.texts, *self.dev_set.texts, *self.suite.texts)
        return CompactTokenizer(self.pretrained.tokenizer(), texts)

    @functools.cached_property
    def _encoded(self) -> Labelled:
        return label_texts(self.tokenizer, self.train_set.texts, self.train_set.labels)

    def __getstate__(self) -> dict[str, Any]:
        # texts travel to a worker, and not their tokens
        return {field.name: getattr(self, field.name) for field in fields(self)}


def robustness(data: Path | None = None, model: str = "", suite: Path | None = None) -> Task:
    """The paper's task on SST-2, with DistilBERT by default; without data, all made by code."""
    if data is None:
        if model or suite is not None:
            raise AcetuneError(
                "a model and a suite go with real sentences: give the folder of SST-2 too"
            )
        require_transformers()
        return _task(made_sentiment(), "robustness-made")
    if suite is None:
        raise AcetuneError(
            "the suite of behavioural tests is missing: give the file of CheckList's sentiment "
            "suite"
        )
    train_set, dev_set = read_sst2(data)
    pretrained = HubModel(model or DISTILBERT)
    pretrained.tokenizer()  # say at once if it cannot be had
    return _task(SentimentTask(train_set, dev_set, load_checklist(suite), pretrained), "robustness")


def made_sentiment(sentences: int = 2_000) -> SentimentTask:
    """The task on sentences, tests and a tiny model made by code."""
    train_set, dev_set = made_sentences(sentences, seed=1), made_sentences(400, seed=2)
    suite = sentiment_suite()
    pretrained = TinyModel.of((*train_set.texts, *dev_set.texts, *suite.texts))
    return SentimentTask(train_set, dev_set, suite, pretrained, unit=200, max_epochs=4.0)


def _task(task: SentimentTask, name: str) -> Task:
    # the limit is the one of the paper's ablation
    return Task(
        name,
        task.train,
        task.space,
        "accuracy",
        "max",
        (Constraint("afr", upper=0.20, check=task.check),),
        digits={"accuracy": 5, "afr": 5, "cost_s": 4},
    )
