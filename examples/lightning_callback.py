"""Lightning: a network whose acceptance rates of two groups may differ by 0.1."""

import torch
from lightning import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset

from acetune import Constraint, loguniform, tune
from acetune.callbacks.lightning import ReportCallback
from acetune.constraints import FairnessCheck

X = torch.randn(2000, 5, generator=torch.manual_seed(0)) + torch.arange(2000)[:, None] % 2 * 0.11
y = (X.sum(1) > 0.5).float()
fit, select = (DataLoader(d, 100) for d in map(TensorDataset, X.split(1000), y.split(1000)))


class Net(LightningModule):
    def __init__(self, **options):
        super().__init__()
        self.layer = torch.nn.Linear(5, 1)
        self.configure_optimizers = lambda: torch.optim.AdamW(self.parameters(), **options)

    def training_step(self, batch):
        return torch.nn.BCEWithLogitsLoss()(self.layer(batch[0])[:, 0], batch[1])

    def validation_step(self, batch):
        scores = torch.sigmoid(self.layer(batch[0])[:, 0])
        self.log("val_accuracy", ((scores > 0.5) == batch[1]).float().mean())
        return {"scores": scores}  # for the check, which need not predict again


def train(trial):
    report = ReportCallback(trial, metric="val_accuracy", scores="scores")
    trainer = Trainer(callbacks=[report], max_epochs=8, logger=False, enable_checkpointing=False)
    trainer.fit(Net(**trial.params), fit, select)


gap = FairnessCheck("demographic_parity_difference", y[1000:], [0, 1] * 500)  # two groups
goal = {"mode": "max", "constraints": [Constraint("gap", upper=0.1, check=gap)], "max_trials": 6}
print(tune(train, {"lr": loguniform(1e-3, 0.3)}, objective="accuracy", **goal, workers=1, seed=0))
