"""A LightGBM model that must err about equally often in every region."""

import lightgbm as lgb
import numpy as np

import acetune
from acetune.callbacks.lightgbm import ReportCallback
from acetune.constraints import FairnessCheck

# made-up credit data: in the west more loans fail, and the last column tells who lives there
rng = np.random.default_rng(0)
region = rng.choice(["north", "south", "west"], 60_000)
west = region == "west"
y = (rng.random(60_000) < np.where(west, 0.5, 0.2)).astype(int)
money = y[:, None] + rng.normal(0, [0.9, 1.1, 1.3], (60_000, 3))
X = np.c_[money, west + rng.normal(0, 0.4, 60_000)]
(X_train, X_valid, X_fresh), (y_train, y_valid, y_fresh) = np.split(X, 3), np.split(y, 3)
_, region_valid, region_fresh = np.split(region, 3)


def train(trial):
    params = {"objective": "binary", "metric": "auc", "verbosity": -1, **trial.params}
    data = lgb.Dataset(X_train, y_train)
    valid = data.create_valid(X_valid, y_valid)
    lgb.train(params, data, 100, valid_sets=[valid], callbacks=[ReportCallback(trial)])


errors = "equalized_odds_difference"  # by how much error rates differ between regions, at most
check = FairnessCheck(errors, y_valid, region_valid, threshold=0.3)
rows = (y_fresh, region_fresh)  # that the search never sees
fresh = FairnessCheck(errors, *rows, threshold=0.3, scores=lambda model: model.predict(X_fresh))

result = acetune.tune(
    train,
    {"num_leaves": acetune.lograndint(2, 64), "feature_fraction": acetune.uniform(0.1, 1.0)},
    objective="auc",
    mode="max",
    constraints=[acetune.Constraint("gap", upper=0.15, check=check)],
    confirm=lambda model: {"gap": fresh(model)},
    max_trials=40,
    study="credit.db",  # one SQLite file; run this again and it goes on where it was
)
print(result)
