"""Hugging Face Trainer: a tiny classifier that may change its mind on 15 % of reversed inputs."""

import numpy as np
import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import acetune
from acetune.callbacks.transformers import ReportCallback

rng = np.random.default_rng(0)
tokens = rng.integers(1, 30, (600, 8))  # more high ones than low ones? The end counts a bit more
labels = ((tokens > 15) @ np.linspace(0.5, 1.5, 8) + rng.normal(size=600) / 2 > 4).astype(int)
rows = [{"input_ids": t, "labels": label} for t, label in zip(tokens, labels, strict=True)]


def train(trial):
    size = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}
    config = BertConfig(vocab_size=30, num_hidden_layers=1, max_position_embeddings=8, **size)
    report = ReportCallback(trial, metric="accuracy")
    plain = {"save_strategy": "no", "report_to": "none", "use_cpu": True, "eval_strategy": "epoch"}
    Trainer(
        BertForSequenceClassification(config),
        TrainingArguments(str(trial.folder), **plain, **trial.params),
        train_dataset=rows[:400],
        eval_dataset=rows[400:],
        compute_metrics=report.watch(lambda p: {"accuracy": (p[0].argmax(1) == p[1]).mean()}),
        callbacks=[report],
    ).train()


def changed(candidate):  # the predictions for the sentences are there; those reversed are not
    backwards = candidate.model(torch.tensor(tokens[400:, ::-1].copy())).logits.numpy()
    return np.mean(candidate.scores.argmax(1) != backwards.argmax(1))


space = {"learning_rate": acetune.loguniform(1e-4, 0.1), "per_device_train_batch_size": 32}
limit = acetune.Constraint("changed", upper=0.15, check=changed)
goal = {"objective": "accuracy", "mode": "max", "constraints": [limit]}
print(acetune.tune(train, space, **goal, max_trials=4, workers=1, threads=1, seed=0))
