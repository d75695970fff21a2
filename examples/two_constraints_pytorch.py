"""A PyTorch network that must find 70 % of the bad loans and treat two groups alike."""

import copy

import torch

import acetune
from acetune.constraints import fairness

torch.manual_seed(0)
group = torch.randint(0, 2, (24_000,))
X = torch.randn(24_000, 6) + 0.7 * group[:, None] * torch.tensor([1.0, 0, 0, 0, 0, 0])
y = (X @ torch.tensor([1.0, 1, -1, 0.5, 0, 0]) + 1.5 * torch.randn(24_000) > 1).float()
fit, select, fresh = torch.arange(24_000).split(8_000)


def train(trial):
    cost = torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor(trial.params["pos_weight"]))
    net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(net.parameters(), trial.params["lr"])
    for _ in trial.steps(25):
        for rows in fit[torch.randperm(8_000)].split(200):
            optimizer.zero_grad()
            score, ones = net(X[rows])[:, 0], group[rows] == 1
            unequal = score.sigmoid()[ones].mean() - score.sigmoid()[~ones].mean()
            (cost(score, y[rows]) + trial.params["penalty"] * unequal**2).backward()
            optimizer.step()
        correct = (flagged(net, select) == y[select]).float().mean()
        trial.report(accuracy=correct, model=net, snapshot=copy.deepcopy)


@torch.no_grad()
def flagged(net, rows):
    return (net(X[rows])[:, 0] > 0).float()


def recall(net, rows=select):
    found = flagged(net, rows)[y[rows] == 1]
    return acetune.Share(int(found.sum()), len(found))


def gap(net, rows=select):
    said = (y[rows].numpy(), flagged(net, rows).numpy())
    groups = group[rows].numpy()
    return fairness.demographic_parity_difference(*said, sensitive_features=groups, stderr=True)


result = acetune.tune(
    train,
    {
        "lr": acetune.loguniform(1e-4, 0.1),
        "penalty": acetune.loguniform(0.01, 100),
        "pos_weight": acetune.loguniform(0.5, 8.0),
    },
    objective="accuracy",
    mode="max",
    constraints=[
        acetune.Constraint("recall", lower=0.7, check=lambda net: recall(net)),
        acetune.Constraint("gap", upper=0.1, check=lambda net: gap(net)),
    ],
    confirm=lambda net: {"recall": recall(net, fresh), "gap": gap(net, fresh)},
    max_trials=40,
    threads=1,
    seed=0,
    study="two.db",
)
print(result)
