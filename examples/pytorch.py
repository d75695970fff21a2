"""Plain PyTorch: a network whose acceptance rates of two groups may differ by 0.1."""

import copy

import torch

import acetune

torch.manual_seed(0)
group = torch.randint(0, 2, (4000,))
X = torch.randn(4000, 5) + 0.5 * group[:, None] * torch.tensor([1.0, 0, 0, 0, 0])
y = (X @ torch.tensor([1.0, 1, -1, 0.5, 0]) + torch.randn(4000) > 0).float()
fit, select = torch.arange(2000), torch.arange(2000, 4000)


def train(trial):
    torch.set_num_threads(trial.threads)
    net = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(net.parameters(), **trial.params)
    for _ in trial.steps(20):  # ends by itself when the trial is stopped
        for rows in fit[torch.randperm(2000)].split(100):
            optimizer.zero_grad()
            torch.nn.BCEWithLogitsLoss()(net(X[rows])[:, 0], y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = ((net(X[select])[:, 0] > 0) == y[select]).float().mean()
        trial.report(accuracy=accuracy, model=net, snapshot=copy.deepcopy)


@torch.no_grad()
def gap(net):
    accepted = (net(X[select])[:, 0] > 0).float()
    return abs(accepted[group[select] == 0].mean() - accepted[group[select] == 1].mean())


space = {"lr": acetune.loguniform(1e-4, 0.1), "weight_decay": acetune.loguniform(1e-3, 10)}
limit = acetune.Constraint("gap", upper=0.1, check=gap)
goal = {"objective": "accuracy", "mode": "max", "constraints": [limit]}
print(acetune.tune(train, space, **goal, max_trials=12, seed=0))
