"""Lightning's trainer reports to a trial, on a small classifier."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lightning
import numpy as np
import optuna
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import acetune.optuna
from acetune import ACE, Constraint, Trial
from acetune.callbacks.lightning import ReportCallback, TorchCandidate
from acetune.core.errors import GoalError, ReportError
from acetune.testing import check_callback
from acetune.testing._callbacks import make_trial

# the trainer has opinions on data loaders, intervals and checkpoint folders, none of which matter
# on 48 rows
pytestmark = [
    pytest.mark.filterwarnings("ignore::lightning.fabric.utilities.warnings.PossibleUserWarning"),
    # and it uses a class that this version of PyTorch would rather not have used
    pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec.:FutureWarning"),
]

_made = torch.Generator().manual_seed(0)
X = torch.randn(48, 3, generator=_made)
Y = (X[:, 0] + 0.5 * torch.randn(48, generator=_made) > 0).long()


class Net(lightning.LightningModule):
    """Logs its validations, and notes what it logged."""

    def __init__(self, rate: float = 0.5, dropout: float = 0.5) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(dropout)
        )
        self.head = torch.nn.Linear(4, 2)
        self.logged: list[float] = []
        self.train_losses: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(torch.relu(self.body(x)))
        return found

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        assert self.training
        loss = torch.nn.functional.cross_entropy(self(batch[0]), batch[1])
        self.train_losses.append(loss)  # with its graph, as some people do: it cannot be copied
        return loss

    def validation_step(self, batch: Any, _: int) -> dict[str, torch.Tensor]:
        scores = self(batch[0])
        self.log("val_loss", torch.nn.functional.cross_entropy(scores, batch[1]))
        self.log("val_accuracy", (scores.argmax(1) == batch[1]).float().mean())
        return {"scores": scores}

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.logged.append(float(self.trainer.callback_metrics["val_loss"]))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["rate"])


def loaders(rows: int = 48) -> tuple[DataLoader[Any], DataLoader[Any]]:
    data = TensorDataset(X[:rows], Y[:rows])
    return DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)


def fit(report: Any, *others: Any, net: Net | None = None, **options: Any) -> Net:
    torch.set_num_threads(1)
    if net is None:
        torch.manual_seed(0)
        net = Net()
    ckpt_path = options.pop("ckpt_path", None)
    data = options.pop("data", None) or loaders()
    trainer = lightning.Trainer(
        **{"max_epochs": 3, "enable_checkpointing": False, **options},
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[*others, report] if report else [*others],
    )
    trainer.fit(net, *data, ckpt_path=ckpt_path)
    return net


def loss_of(candidate: TorchCandidate) -> float:
    assert not candidate.model.training
    return float(torch.nn.functional.cross_entropy(candidate.model(X), Y))


def random_loss_of(candidate: TorchCandidate) -> float:
    torch.rand(3)
    np.random.rand(3)
    return loss_of(candidate)


def nothing(_: object) -> float:
    return 0.0


def test_every_validation_is_reported_and_the_sanity_check_is_not(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of)
    net = fit(ReportCallback(trial, "val_loss"), num_sanity_val_steps=2)
    trial.close()
    assert link.declared == [3]
    assert list(link.values.items()) == list(enumerate(net.logged, start=1))
    # the check has seen the weights that the validation had seen
    assert link.measured() == pytest.approx(link.values, abs=1e-6)
    assert all((report.primary_cost_s or 0) > 0 for report in link.reports)


def test_it_keeps_to_the_protocol() -> None:
    check_callback(lambda trial: fit(ReportCallback(trial, "val_loss")), random_loss_of)


def test_a_check_changes_nothing_in_training(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, random_loss_of)
    watched = fit(ReportCallback(trial, "val_loss"))
    assert watched.logged == fit(None).logged
    assert len(link.measured()) == 3


@pytest.mark.parametrize(
    ("options", "total"),
    [
        ({"max_epochs": 4}, 4),
        ({"max_epochs": 2, "val_check_interval": 0.5}, 4),
        ({"max_epochs": 2, "val_check_interval": 4}, 2),  # a third of an epoch is not validated
        ({"max_epochs": 5, "check_val_every_n_epoch": 2}, 2),
        ({"max_epochs": 3, "val_check_interval": 4, "check_val_every_n_epoch": None}, 4),
        ({"max_epochs": -1, "max_steps": 15}, 2),
        ({"max_epochs": -1, "max_steps": 15, "val_check_interval": 3}, 5),
        ({"max_epochs": 9, "max_steps": 7, "accumulate_grad_batches": 2}, 2),
        ({"max_epochs": 3, "limit_train_batches": 2}, 3),
        ({"fast_dev_run": True}, 1),
    ],
)
def test_the_last_step_is_taken_from_the_trainer(
    options: dict[str, Any], total: int, tmp_path: Path
) -> None:
    trial, link = make_trial(tmp_path, nothing)
    fit(ReportCallback(trial, "val_loss"), **options)
    assert link.declared == [total]
    assert list(link.values) == list(range(1, total + 1))


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return zip(X, Y, strict=True)


def test_data_without_a_length(tmp_path: Path) -> None:
    stream, rows = DataLoader(Stream(), batch_size=8), loaders()[1]
    for options, total in (
        ({"max_epochs": 2}, 2),
        ({"max_epochs": 2, "val_check_interval": 3}, None),
        ({"max_steps": 9, "val_check_interval": 3, "check_val_every_n_epoch": None}, 3),
    ):
        trial, link = make_trial(tmp_path, nothing)
        fit(ReportCallback(trial, "val_loss"), data=(stream, rows), **options)
        assert link.declared == [total]
        assert len(link.values) == (total or 4)


def test_a_stopped_trial_ends_the_fit(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing, stop_at=2)
    net = fit(ReportCallback(trial, "val_loss"), max_epochs=9)
    assert (list(link.values), len(net.logged)) == ([1, 2], 2)
    trial, link = make_trial(tmp_path, nothing, stop_at=2)  # the trainer goes on for a while
    net = fit(ReportCallback(trial, "val_loss"), max_epochs=9, min_epochs=4)
    assert (list(link.values), len(net.logged)) == ([1, 2], 4)


@pytest.mark.parametrize("first", [True, False])
def test_beside_early_stopping_and_model_checkpoint(first: bool, tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    early = EarlyStopping("val_loss", patience=1, min_delta=10.0)  # nothing improves that much
    best = ModelCheckpoint(tmp_path / "best", monitor="val_loss")
    report = ReportCallback(trial, "val_loss")
    others = [early, best]
    torch.manual_seed(0)
    net = Net()
    trainer = lightning.Trainer(
        max_epochs=9,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[report, *others] if first else [*others, report],
    )
    trainer.fit(net, *loaders())
    assert len(net.logged) == 2
    assert list(link.values.values()) == net.logged
    assert link.measured() == {}  # it was due at step 9, which never came
    trial.close()
    step = min(link.values, key=link.values.__getitem__)
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-6)
    assert best.best_model_score == pytest.approx(min(net.logged))


def test_the_best_is_checked_at_the_last_step_and_kept(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, loss_of, interval="end")
    report = ReportCallback(trial, "val_loss")
    weights: dict[int, dict[str, torch.Tensor]] = {}

    class Noting(lightning.Callback):
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.sanity_checking:
                state = pl_module.state_dict()
                weights[len(weights) + 1] = {name: t.clone() for name, t in state.items()}

    torch.manual_seed(0)
    fit(report, Noting(), net=Net(rate=20.0), max_epochs=4)  # too fast: the last is not the best
    step = min(link.values, key=link.values.__getitem__)
    assert step < 4
    assert link.measured() == pytest.approx({step: link.values[step]}, abs=1e-6)
    assert list(link.models) == [step]
    kept = link.load(step)
    assert isinstance(kept, TorchCandidate)
    assert loss_of(kept) == pytest.approx(link.values[step], abs=1e-6)
    assert kept.weights.keys() == weights[step].keys()
    assert all(torch.equal(kept.weights[name], weights[step][name]) for name in weights[step])
    assert kept.model.hparams["rate"] == 20.0
    Net().load_state_dict(kept.weights)


def test_nothing_is_copied_or_checked_that_is_not_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    monkeypatch.setattr(TorchCandidate, "keep", lambda self: called.append("keep"))
    check = lambda candidate: called.append("check") or 2.0  # noqa: E731
    trial, _ = make_trial(tmp_path, check, upper=1.0)  # checked at each step, never valid
    fit(ReportCallback(trial, "val_loss"))
    assert called == ["check"] * 3
    called.clear()
    trial, link = make_trial(tmp_path, check, upper=1.0, interval="end")
    torch.manual_seed(0)
    fit(ReportCallback(trial, "val_loss"), net=Net(rate=20.0), max_epochs=4)
    found = list(link.values.values())
    # whenever it was the best so far, except at the end, where the module itself is at hand
    best = [step for step in range(3) if found[step] < min(found[:step], default=9e9)]
    assert len(best) < 3  # or this test could not tell one from the other
    assert called == ["keep"] * len(best) + ["check"]


def test_predictions_of_the_validation(tmp_path: Path) -> None:
    def check(candidate: TorchCandidate) -> float:
        assert candidate.scores.shape == (48, 2)
        torch.testing.assert_close(candidate.scores, candidate.model(X))
        return float(torch.nn.functional.cross_entropy(candidate.scores, Y))

    trial, link = make_trial(tmp_path, check)
    fit(ReportCallback(trial, "val_loss", scores="scores"), num_sanity_val_steps=1)
    assert link.measured() == pytest.approx(link.values, abs=1e-6)
    assert link.load(max(link.models)).scores.shape == (48, 2)


@pytest.mark.parametrize(("named", "rows"), [("", 48), ("/dataloader_idx_1", 30)])
def test_predictions_of_one_of_two_loaders(named: str, rows: int, tmp_path: Path) -> None:
    class Twice(Net):
        def validation_step(self, batch: Any, i: int, dataloader_idx: int = 0) -> Any:
            if dataloader_idx == 0:
                self.log("val_loss", 1.0, add_dataloader_idx=False)
            self.log("other", float(dataloader_idx), add_dataloader_idx=True)
            return {"scores": self(batch[0])}

        def on_validation_epoch_end(self) -> None: ...

    trial, link = make_trial(tmp_path, lambda candidate: len(candidate.scores))
    report = ReportCallback(trial, f"other{named}" if named else "val_loss", scores="scores")
    fit(report, net=Twice(), data=(loaders()[0], [loaders()[1], loaders(30)[1]]))
    assert link.measured() == {1: rows, 2: rows, 3: rows}


def test_a_check_may_use_gradients(tmp_path: Path) -> None:
    def slope(candidate: TorchCandidate) -> float:
        with torch.enable_grad():
            x = X.clone().requires_grad_()
            candidate.model(x).sum().backward()
        assert x.grad is not None
        candidate.model.zero_grad()
        return float(x.grad.abs().sum())

    for interval in (1, "end"):
        trial, link = make_trial(tmp_path, slope, interval=interval)  # type: ignore[arg-type]
        fit(ReportCallback(trial, "val_loss"), max_epochs=2)
        assert min(link.measured().values()) > 0


def test_an_attempt_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    def train(report: ReportCallback) -> None:
        torch.manual_seed(0)  # no dropout: the trainer's checkpoints know no random state
        fit(report, net=Net(dropout=0.0), max_epochs=4, ckpt_path=report.checkpoint)

    whole, all_of_it = make_trial(tmp_path / "whole", nothing)
    train(ReportCallback(whole, "val_loss"))

    first, before = make_trial(tmp_path / "first", nothing, stop_at=2)  # as if it had died there
    train(ReportCallback(first, "val_loss", checkpoints=True))
    assert list(before.checkpoints) == [1, 2]

    folder = before.checkpoints[2]
    second, after = make_trial(tmp_path / "second", nothing, checkpoint=folder, last_step=2)
    train(ReportCallback(second, "val_loss", checkpoints=True))
    assert after.declared == [4]
    assert list(after.values) == [3, 4]
    assert {**before.values, **after.values} == pytest.approx(all_of_it.values)


def test_in_a_study_of_optuna(tmp_path: Path) -> None:
    pruner = acetune.optuna.AcePruner(
        [Constraint("limit", upper=1e9, check=loss_of)], ACE(interval="end")
    )
    nets: list[Net] = []

    def objective(trial: optuna.Trial) -> float:
        ace = acetune.optuna.trial(trial, total_steps=None, folder=tmp_path)
        nets.append(fit(ReportCallback(ace, "val_loss"), net=Net(trial.suggest_float("r", 0.1, 1))))
        return ace.finish()

    study = optuna.create_study(pruner=pruner, sampler=optuna.samplers.RandomSampler(0))
    study.optimize(objective, n_trials=2)
    found = acetune.optuna.best(study)
    assert found is not None
    assert found.value == pytest.approx(min(min(net.logged) for net in nets))
    assert found.constraints["limit"].value == pytest.approx(found.value, abs=1e-6)


def test_a_second_fit_needs_to_know_the_last_step(tmp_path: Path) -> None:
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "val_loss", total_steps=5)
    net = fit(report, max_epochs=3)
    fit(report, net=net, max_epochs=2)
    assert list(link.values) == [1, 2, 3, 4, 5]
    assert set(link.declared) == {5}
    trial, link = make_trial(tmp_path, nothing)
    report = ReportCallback(trial, "val_loss")
    fit(report)
    with pytest.raises(ReportError, match=r"ReportCallback\(\.\.\., total_steps="):
        fit(report)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"metric": "accuracy"}, r"no metric 'accuracy'; it has \['val_accuracy', 'val_loss'\]"),
        ({"metric": ""}, "metric must be the name"),
        ({"metric": 3}, "got 3"),
        (
            {"metric": "val_loss", "total_steps": 0},
            "total_steps must be a whole number >= 1, got 0",
        ),
        ({"metric": "val_loss", "total_steps": 2}, "total_steps=2 is too small: .* step 3"),
        ({"metric": "val_loss", "scores": "logits"}, r"returned \['scores'\]"),
        ({"metric": "val_loss", "trial": object()}, "first argument is acetune's trial"),
        ({"metric": "val_loss", "trial": None}, "got a NoneType"),
    ],
)
def test_bad_input(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    trial: Trial = make_trial(tmp_path, nothing)[0]
    with pytest.raises((ReportError, GoalError), match=words):
        fit(ReportCallback(**{"trial": trial, **options}))


def test_no_validation_at_all(tmp_path: Path) -> None:
    trial = make_trial(tmp_path, nothing)[0]
    with pytest.raises(ReportError, match="without a validation"):
        fit(ReportCallback(trial, "val_loss"), data=(loaders()[0], None), limit_val_batches=0)
