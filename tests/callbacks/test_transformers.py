"""The Trainer of transformers reports to a trial, on a tiny classifier with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    EarlyStoppingCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from acetune.callbacks.transformers import ReportCallback, TorchCandidate
from acetune.core.errors import GoalError, ReportError
from acetune.testing import check_callback
from acetune.testing._callbacks import make_trial

_rng = np.random.default_rng(0)
TOKENS = _rng.integers(1, 20, (32, 6))
LABELS = (TOKENS > 10).sum(1) % 2
ROWS = [
    {"input_ids": tokens.tolist(), "labels": int(label)}
    for tokens, label in zip(TOKENS, LABELS, strict=True)
]


def make_model() -> BertForSequenceClassification:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForSequenceClassification(config)


def accuracy(predicted: Any) -> dict[str, float]:
    found = predicted.predictions.argmax(1) == predicted.label_ids
    return {"accuracy": float(found.mean())}


def train(
    folder: Path, report: Any, *others: Any, model: Any = None, resume: Any = None, **options: Any
) -> Trainer:
    trainer_options = {
        name: options.pop(name) for name in ("eval_dataset", "compute_metrics") if name in options
    }
    arguments: dict[str, Any] = {
        "output_dir": str(folder),
        "num_train_epochs": 3,
        "per_device_train_batch_size": 8,
        "learning_rate": 0.05,
        "eval_strategy": "epoch",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 1,
        "dataloader_pin_memory": False,
    }
    trainer = Trainer(
        model or make_model(),
        TrainingArguments(**{**arguments, **options}),
        train_dataset=ROWS,
        **{"eval_dataset": ROWS, **trainer_options},
        callbacks=[*others, report] if report else [*others],
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer


def logged(trainer: Trainer, name: str = "eval_loss") -> list[float]:
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def loss_of(candidate: TorchCandidate) -> float:
    assert not candidate.model.training
    out = candidate.model(torch.tensor(TOKENS)).logits.numpy()
    shifted = out - out.max(1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    return float(-logs[np.arange(len(LABELS)), LABELS].mean())


def random_loss_of(candidate: TorchCandidate) -> float:
    torch.rand(3)
    np.random.rand(3)
    return loss_of(candidate)


def nothing(_: object) -> float:
    return 0.0


def test_every_evaluation_is_reported(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of)
    trainer = train(tmp_path, ReportCallback(trial, "eval_loss"), eval_on_start=True)
    trainer.evaluate()  # not training any more
    trial.close()
    assert link.declared == [3]
    assert [report.step for report in link.reports] == [1, 2, 3]
    assert list(link.values.values()) == logged(trainer)[1:4]  # the first is before any training
    assert link.measured() == pytest.approx(link.values, abs=1e-5)
    assert all((report.primary_cost_s or 0) > 0 for report in link.reports)


def test_it_keeps_to_the_protocol(tmp_path: Path) -> None:
    check_callback(lambda trial: train(tmp_path, ReportCallback(trial, "loss")), random_loss_of)


def test_a_check_changes_nothing_in_training(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, random_loss_of)
    assert logged(train(tmp_path, ReportCallback(trial, "loss"))) == logged(train(tmp_path, None))
    assert len(link.measured()) == 3


@pytest.mark.parametrize(
    ("options", "total"),
    [
        ({"num_train_epochs": 2}, 2),
        ({"num_train_epochs": 1.5}, 2),  # the part of an epoch is evaluated too
        ({"num_train_epochs": 4, "eval_delay": 2}, 3),
        ({"max_steps": 6}, 2),
        ({"max_steps": 6, "eval_strategy": "steps", "eval_steps": 2}, 3),
        ({"max_steps": 7, "eval_strategy": "steps", "eval_steps": 2}, 4),  # one more at the end
        ({"eval_strategy": "steps", "eval_steps": 0.25}, 4),
        ({"max_steps": 9, "eval_strategy": "steps", "eval_steps": 2, "eval_delay": 3}, 4),
        ({"num_train_epochs": 2, "gradient_accumulation_steps": 2}, 2),
    ],
)
def test_the_last_step_is_taken_from_the_trainer(
    options: dict[str, Any], total: int, tmp_path: Path
) -> None:
    trial, link = make_trial(tmp_path, nothing)
    trainer = train(tmp_path, ReportCallback(trial, "loss"), **options)
    assert link.declared == [total]
    assert list(link.values.items()) == list(enumerate(logged(trainer), start=1))
    assert len(link.values) == total


@pytest.mark.parametrize("options", [{}, {"eval_strategy": "steps", "eval_steps": 3}])
def test_a_stopped_trial_ends_the_training(options: dict[str, Any], tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing, stop_at=2)
    trainer = train(tmp_path, ReportCallback(trial, "loss"), num_train_epochs=9, **options)
    assert list(link.values) == [1, 2]
    assert len(logged(trainer)) == 2
    assert trainer.state.global_step < 10


@pytest.mark.parametrize("first", [True, False])
def test_beside_early_stopping_and_the_best_model(first: bool, tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path / "kept", loss_of, interval="end")
    early = EarlyStoppingCallback(1, early_stopping_threshold=10.0)  # nothing improves that much
    callbacks: list[TrainerCallback] = [ReportCallback(trial, "loss"), early]
    trainer = train(
        tmp_path / "out",
        *(callbacks if first else callbacks[::-1]),
        num_train_epochs=9,
        learning_rate=0.5,  # too fast: the last is not the best
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )
    assert len(logged(trainer)) == 2
    assert link.measured() == {}  # it was due at step 9, which never came
    trial.close()
    step = min(link.values, key=link.values.__getitem__)
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-5)
    # and the trainer has its own best model: the same one
    assert loss_of(TorchCandidate(trainer.model.eval()).keep()) == pytest.approx(
        link.values[step], abs=1e-5
    )


def test_the_best_is_checked_at_the_last_step_and_kept(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path / "kept", loss_of, interval="end")
    train(
        tmp_path,
        ReportCallback(trial, "loss"),
        num_train_epochs=4,
        learning_rate=0.5,  # too fast: the last is not the best
        lr_scheduler_type="constant",
    )
    step = min(link.values, key=link.values.__getitem__)
    assert step < 4
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-5)
    assert list(link.models) == [step]
    kept = link.load(step)
    assert loss_of(kept) == pytest.approx(link.values[step], abs=1e-5)
    kept.model.save_pretrained(tmp_path / "saved")  # the framework's own format is one call away
    again = BertForSequenceClassification.from_pretrained(tmp_path / "saved")
    assert loss_of(TorchCandidate(again.eval()).keep()) == pytest.approx(link.values[step])


def test_mixed_precision_does_not_keep_a_model_from_being_kept(tmp_path: Path) -> None:
    # accelerate replaces forward() by one that refuses to be pickled
    trial, link = make_trial(tmp_path / "kept", nothing)
    trainer = train(tmp_path, ReportCallback(trial, "loss"), bf16=True)
    assert "forward" in vars(trainer.model)
    step = max(link.models)
    assert link.values[step] == min(link.values.values())
    assert loss_of(link.load(step)) == pytest.approx(link.values[step], abs=0.02)


def test_predictions_of_the_evaluation(tmp_path: Path) -> None:
    def wrong(candidate: TorchCandidate) -> float:
        assert candidate.scores.shape == (32, 2)
        return float(np.mean(candidate.scores.argmax(1) != LABELS))

    for interval in (1, "end"):
        trial, link = make_trial(tmp_path, wrong, mode="max", interval=interval)  # type: ignore[arg-type]
        report = ReportCallback(trial, "accuracy")
        trainer = train(tmp_path, report, compute_metrics=report.watch(accuracy))
        assert list(link.values.values()) == logged(trainer, "eval_accuracy")
        assert link.measured()
        for step, share in link.measured().items():
            assert share == pytest.approx(1 - link.values[step])


def test_several_evaluation_sets(tmp_path: Path) -> None:
    sets = {"a": ROWS[:8], "b": ROWS[8:]}
    for name, size in (("a", 8), ("b", 24)):
        trial, link = make_trial(tmp_path, lambda candidate: len(candidate.scores))
        report = ReportCallback(trial, f"{name}_accuracy")
        trainer = train(tmp_path, report, eval_dataset=sets, compute_metrics=report.watch(accuracy))
        assert list(link.values.values()) == logged(trainer, f"eval_{name}_accuracy")
        assert link.measured() == {1: size, 2: size, 3: size}


def test_an_attempt_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    whole, all_of_it = make_trial(tmp_path / "whole", nothing)
    train(tmp_path, ReportCallback(whole, "loss"), num_train_epochs=4)

    first, before = make_trial(tmp_path / "first", nothing, stop_at=2)  # as if it had died there
    report = ReportCallback(first, "loss", checkpoints=True)
    assert report.checkpoint is None
    train(tmp_path, report, num_train_epochs=4)
    assert list(before.checkpoints) == [1, 2]

    folder = before.checkpoints[2]
    second, after = make_trial(tmp_path / "second", nothing, checkpoint=folder, last_step=2)
    report = ReportCallback(second, "loss", checkpoints=True)
    train(tmp_path, report, num_train_epochs=4, resume=report.checkpoint)
    assert after.declared == [4]
    assert list(after.values) == [3, 4]
    assert {**before.values, **after.values} == pytest.approx(all_of_it.values)


class Plain(torch.nn.Module):
    """A module that is no PreTrainedModel, with a weight that is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(20, 20)
        self.tied = torch.nn.Linear(20, 20, bias=False)
        self.tied.weight = self.words.weight

    def forward(self, input_ids: Any, labels: Any = None) -> dict[str, Any]:
        logits = self.tied(self.words(input_ids).mean(1))[:, :2]
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


def test_a_plain_module_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def again(name: str, **options: Any) -> Any:
        trial, link = make_trial(tmp_path / name, nothing, **options)
        report = ReportCallback(trial, "loss", checkpoints=True)
        torch.manual_seed(0)
        train(tmp_path, report, model=Plain(), resume=report.checkpoint)
        return link

    whole, first = again("whole"), again("first", stop_at=2)
    second = again("second", checkpoint=first.checkpoints[2], last_step=2)
    assert {**first.values, **second.values} == pytest.approx(whole.values)
    assert list(second.values) == [3]


def test_a_second_training_needs_to_know_the_last_step(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "loss", total_steps=5)
    train(tmp_path, report)
    train(tmp_path, report, num_train_epochs=2)
    assert list(link.values) == [1, 2, 3, 4, 5]
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "loss")
    train(tmp_path, report)
    with pytest.raises(ReportError, match=r"ReportCallback\(\.\.\., total_steps="):
        train(tmp_path, report)


def in_pieces(predicted: Any, compute_result: bool) -> dict[str, float]:
    return accuracy(predicted)


@pytest.mark.parametrize(
    ("made", "options", "words"),
    [
        ({"metric": "auc"}, {}, r"no metric 'auc'; it has \['epoch', 'eval_loss'"),
        ({"metric": "auc"}, {"num_train_epochs": 1}, "no metric 'auc'"),
        ({"metric": ""}, {}, "metric must be the name"),
        ({"metric": "loss", "total_steps": "all"}, {}, "got 'all'"),
        ({"metric": "loss", "total_steps": 2}, {}, "total_steps=2 is too small: .* step 3"),
        ({"metric": "loss", "trial": 7}, {}, "first argument is acetune's trial"),
        ({"metric": "loss"}, {"eval_strategy": "no"}, "eval_strategy='epoch'"),
        ({"metric": "loss"}, {"eval_delay": 9}, "without an evaluation"),
    ],
)
def test_bad_input(
    made: dict[str, Any], options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    trial = make_trial(tmp_path, nothing)[0]
    with pytest.raises((ReportError, GoalError), match=words):
        train(tmp_path, ReportCallback(**{"trial": trial, **made}), **options)


def test_predictions_in_pieces_are_refused(tmp_path: Path) -> None:
    report = ReportCallback(make_trial(tmp_path, nothing)[0], "loss")
    with pytest.raises(ReportError, match="batch_eval_metrics"):
        train(tmp_path, report, compute_metrics=report.watch(in_pieces), batch_eval_metrics=True)
