"""A LightGBM model whose errors must not depend on the group: equalised odds within 0.2."""

import lightgbm as lgb
import numpy as np

import acetune
from acetune.callbacks.lightgbm import ReportCallback
from acetune.constraints import FairnessCheck

rng = np.random.default_rng(0)
y = (rng.random(12_000) < 0.3).astype(int)
X = y[:, None] + rng.normal(0, [0.7, 1.1, 1.3, 1.5], (12_000, 4))
group = rng.choice(["north", "south", "west"], 12_000)
X[group == "west", 0] = rng.normal(0.3, 0.8, sum(group == "west"))  # says nothing of these
fit, select, fresh = np.split(np.arange(12_000), 3)


def train(trial):
    fixed = {"objective": "binary", "metric": "auc", "verbosity": -1, "num_threads": trial.threads}
    rows = lgb.Dataset(X[fit], y[fit])
    valid = rows.create_valid(X[select], y[select])  # the check sees LightGBM's own scores of it
    report = ReportCallback(trial)
    lgb.train({**trial.params, **fixed}, rows, 40, valid_sets=[valid], callbacks=[report])


odds, rule = "equalized_odds_difference", {"threshold": y[fit].mean()}
eod = FairnessCheck(odds, y[select], group[select], **rule)
again = FairnessCheck(odds, y[fresh], group[fresh], **rule, scores=lambda m: m.predict(X[fresh]))
result = acetune.tune(
    train,
    {"num_leaves": acetune.lograndint(2, 64), "feature_fraction": acetune.uniform(0.1, 1.0)},
    objective="auc",
    mode="max",
    constraints=[acetune.Constraint("eod", upper=0.2, margin_se=1, check=eod)],
    confirm=lambda model: {"eod": again(model)},
    max_trials=20,
    seed=0,
)
print(result)
