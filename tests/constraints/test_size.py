from __future__ import annotations

import io
import json
import math
import os
import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acetune import Constraint
from acetune.constraints.size import parameters, serialized_bytes
from acetune.core.errors import AcetuneError
from acetune.core.goals import Estimate
from acetune.testing import check_constraint
from acetune.trial.checks import call_check

os.environ.setdefault("KERAS_BACKEND", "torch")  # read once, when keras is imported

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = (X[:, 0] + X[:, 1] > 0).astype(int)


@pytest.fixture(scope="module")
def booster() -> Any:
    lgb = pytest.importorskip("lightgbm")
    data = lgb.Dataset(X, Y)
    options = {"objective": "binary", "num_leaves": 4, "verbosity": -1, "num_threads": 1}
    return lgb.train(options, data, num_boost_round=6)


@pytest.fixture(scope="module")
def xgb_booster() -> Any:
    xgb = pytest.importorskip("xgboost")
    options = {"objective": "binary:logistic", "max_depth": 2, "nthread": 1}
    return xgb.train(options, xgb.DMatrix(X, Y), num_boost_round=6)


class TestBytes:
    def test_a_file_and_a_folder(self, tmp_path: Path) -> None:
        (tmp_path / "inner").mkdir()
        (tmp_path / "a").write_bytes(b"12345")
        (tmp_path / "inner" / "b").write_bytes(b"1234567")
        assert serialized_bytes(tmp_path / "a") == 5
        assert serialized_bytes(tmp_path) == 12
        with pytest.raises(AcetuneError, match=r"no file or folder .*absent"):
            serialized_bytes(tmp_path / "absent")
        with pytest.raises(AcetuneError, match=r"report a path as pathlib\.Path"):
            serialized_bytes(str(tmp_path))

    def test_anything_that_can_be_pickled(self) -> None:
        for model in (X, {"w": [1.0, 2.0]}, bytearray(b"123")):
            expected = len(model if isinstance(model, bytearray) else pickle.dumps(model, 5))
            assert serialized_bytes(model) == expected

    def test_functions_too(self) -> None:
        assert serialized_bytes(lambda x: x @ X) > X.nbytes

    def test_what_cannot_be_pickled(self) -> None:
        with pytest.raises(AcetuneError, match=r"a lock cannot be pickled .*check of your own"):
            serialized_bytes(threading.Lock())

    def test_a_module_takes_what_saving_its_state_takes(self) -> None:
        torch = pytest.importorskip("torch")
        net = torch.nn.Sequential(torch.nn.Linear(50, 40), torch.nn.BatchNorm1d(40))
        file = io.BytesIO()
        torch.save(net.state_dict(), file)
        assert serialized_bytes(net) == len(file.getvalue())
        assert serialized_bytes(net.half()) < len(file.getvalue()) - 3500

    def test_weights_that_are_shared_count_once(self) -> None:
        torch = pytest.importorskip("torch")
        net = torch.nn.Sequential(*(torch.nn.Linear(100, 100) for _ in range(2)))
        apart = serialized_bytes(net)
        net[1].weight = net[0].weight
        assert serialized_bytes(net) < apart - 39_000

    def test_a_booster_of_lightgbm(self, booster: Any, tmp_path: Path) -> None:
        booster.save_model(tmp_path / "model.txt")
        on_disk = serialized_bytes(tmp_path / "model.txt")
        assert serialized_bytes(booster) == pytest.approx(on_disk, abs=10)

    def test_a_booster_of_xgboost(self, xgb_booster: Any, tmp_path: Path) -> None:
        xgb_booster.save_model(tmp_path / "model.ubj")
        assert serialized_bytes(xgb_booster) == serialized_bytes(tmp_path / "model.ubj")

    @pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras's own
    def test_a_model_of_keras(self, tmp_path: Path) -> None:
        model = keras_model(300)
        model.save(tmp_path / "model.keras")
        on_disk = serialized_bytes(tmp_path / "model.keras")
        assert serialized_bytes(model) == pytest.approx(on_disk, abs=500)

    def test_a_model_of_scikit_learn(self) -> None:
        linear = pytest.importorskip("sklearn.linear_model").LogisticRegression().fit(X, Y)
        assert serialized_bytes(linear) == len(pickle.dumps(linear, 5))


def keras_model(width: int) -> Any:
    keras = pytest.importorskip("keras")
    layers = keras.layers
    return keras.Sequential([keras.Input((4,)), layers.Dense(width), layers.Dense(1)])


def all_leaves(node: dict[str, Any]) -> list[dict[str, Any]]:
    if "left_child" not in node:
        return [node]
    return all_leaves(node["left_child"]) + all_leaves(node["right_child"])


class TestParameters:
    def test_a_module(self) -> None:
        torch = pytest.importorskip("torch")
        net = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.BatchNorm1d(3))
        net[0].weight.requires_grad = False
        assert parameters(net) == 5 * 3 + 3 + 2 * 3  # running means are no parameters
        assert parameters(net, trainable_only=True) == 3 + 2 * 3

    def test_a_model_of_keras(self) -> None:
        keras = pytest.importorskip("keras")
        model = keras_model(3)
        assert parameters(model) == 4 * 3 + 3 + 3 + 1 == model.count_params()
        model.layers[0].trainable = False
        assert parameters(model, trainable_only=True) == 3 + 1
        with pytest.raises(AcetuneError, match="has no weights yet"):
            parameters(keras.Sequential([keras.layers.Dense(1)]))

    def test_linear_models_and_networks(self) -> None:
        linear = pytest.importorskip("sklearn.linear_model")
        assert parameters(linear.LogisticRegression().fit(X, Y)) == 5
        assert parameters(linear.LinearRegression(fit_intercept=False).fit(X, Y)) == 4
        network = pytest.importorskip("sklearn.neural_network").MLPRegressor(
            hidden_layer_sizes=(7,), solver="lbfgs", max_iter=20_000, tol=1.0
        )
        assert parameters(network.fit(X, Y)) == 4 * 7 + 7 + 7 + 1

    def test_trees_have_leaves(self) -> None:
        trees = pytest.importorskip("sklearn.tree")
        ensemble = pytest.importorskip("sklearn.ensemble")
        tree = trees.DecisionTreeClassifier(max_leaf_nodes=5, random_state=0).fit(X, Y)
        assert parameters(tree) == tree.get_n_leaves() == 5
        for many in (
            ensemble.RandomForestClassifier(3, max_leaf_nodes=4, random_state=0),
            ensemble.GradientBoostingClassifier(n_estimators=3, max_leaf_nodes=4),
        ):
            assert parameters(many.fit(X, Y)) == 12

    def test_boosters_have_leaves(self, booster: Any, xgb_booster: Any) -> None:
        assert parameters(booster) == 6 * 4
        assert parameters(xgb_booster) == int(
            (xgb_booster.trees_to_dataframe()["Feature"] == "Leaf").sum()
        )

    def test_their_scikit_learn_classes(self) -> None:
        lgb, xgb = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
        options = {"n_estimators": 3, "n_jobs": 1}
        light = lgb.LGBMClassifier(num_leaves=4, verbosity=-1, **options).fit(X, Y)
        assert parameters(light) == 12
        extreme = xgb.XGBClassifier(max_depth=1, **options).fit(X, Y)
        assert parameters(extreme) == 6
        linear = xgb.XGBRegressor(booster="gblinear", **options).fit(X, Y)
        assert parameters(linear) == linear.coef_.size + linear.intercept_.size == 5

    @pytest.mark.parametrize("kind", ["gbtree", "dart"])
    def test_features_may_have_any_name(self, kind: str) -> None:
        xgb = pytest.importorskip("xgboost")
        names = ["leaf=1", "x yes=1\n0:leaf=2", "leaf", "2:leaf=0.5"]
        options = {"max_depth": 2, "nthread": 1, "booster": kind}
        trees = xgb.train(options, xgb.DMatrix(X, X.sum(axis=1), feature_names=names), 3)
        assert parameters(trees) == 3 * 4
        trees.feature_names = ["[a] yes=", "0:[b", "c]", "<"]  # here XGBoost takes brackets too
        assert parameters(trees) == 3 * 4

    def test_leaves_that_were_pruned_do_not_count(self) -> None:
        xgb = pytest.importorskip("xgboost")
        options = {"tree_method": "exact", "gamma": 5, "nthread": 1}
        trees = xgb.train(options, xgb.DMatrix(X, X.sum(axis=1)), 3)
        saved = json.loads(trees.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
        assert any(int(tree["tree_param"]["num_deleted"]) for tree in saved)
        assert parameters(trees) == int((trees.trees_to_dataframe()["Feature"] == "Leaf").sum())

    def test_splits_on_categories(self) -> None:
        xgb, pd = pytest.importorskip("xgboost"), pytest.importorskip("pandas")
        frame = pd.DataFrame({"a": X[:, 0], "leaf=": pd.Categorical(np.arange(300) % 7)})
        options = {"max_depth": 1, "nthread": 1, "max_cat_to_onehot": 1}
        data = xgb.DMatrix(frame, np.arange(300) % 7 > 3, enable_categorical=True)
        assert parameters(xgb.train(options, data, 2)) == 4

    def test_a_linear_booster_has_coefficients(self) -> None:
        xgb = pytest.importorskip("xgboost")
        options: dict[str, Any] = {"booster": "gblinear", "nthread": 1}
        assert parameters(xgb.train(options, xgb.DMatrix(X, Y), 2)) == 5
        options |= {"objective": "multi:softprob", "num_class": 3}
        three = xgb.train(options, xgb.DMatrix(X, np.arange(300) % 3), 2)
        assert parameters(three) == 3 * 5

    def test_a_booster_without_rounds_has_nothing_to_count(self) -> None:
        xgb = pytest.importorskip("xgboost")
        for kind in ("gbtree", "gblinear"):
            empty = xgb.train({"booster": kind, "nthread": 1}, xgb.DMatrix(X, Y), 0)
            with pytest.raises(AcetuneError, match="XGBoost model has no rounds yet"):
                parameters(empty)

    def test_linear_trees_have_coefficients_in_their_leaves(self) -> None:
        lgb = pytest.importorskip("lightgbm")
        options = {"linear_tree": True, "num_leaves": 4, "verbosity": -1, "num_threads": 1}
        trees = lgb.train(options, lgb.Dataset(X, X.sum(axis=1)), 3)
        coefficients = sum(
            len(leaf.get("leaf_coeff", []))
            for tree in trees.dump_model()["tree_info"]
            for leaf in all_leaves(tree["tree_structure"])
        )
        assert coefficients > 0
        assert parameters(trees) == 3 * 4 + coefficients

    def test_a_booster_stopped_early_counts_to_its_best_round(self) -> None:
        lgb = pytest.importorskip("lightgbm")
        data = lgb.Dataset(X, Y)
        noise = data.create_valid(X, RNG.integers(0, 2, 300))  # nothing to learn here
        options = {"objective": "binary", "num_leaves": 4, "verbosity": -1, "num_threads": 1}
        stop = lgb.early_stopping(3, verbose=False)
        found = lgb.train(
            options, data, 20, valid_sets=[noise], callbacks=[stop], keep_training_booster=True
        )
        assert found.best_iteration < found.current_iteration()
        assert parameters(found) == 4 * found.best_iteration

    def test_no_rule(self) -> None:
        pipeline = pytest.importorskip("sklearn.svm").SVC().fit(X, Y)
        with pytest.raises(AcetuneError, match=r"parameters of a sklearn\.svm.*SVC; give a check"):
            parameters(pipeline)
        with pytest.raises(AcetuneError, match=r"builtins\.dict"):
            parameters({"w": X})


class TestReportedByCallbacks:
    def test_a_booster_counts_up_to_its_round(self, booster: Any) -> None:
        from acetune.callbacks.lightgbm import RoundModel, TreeText

        early = RoundModel(booster, 2, "valid", TreeText(), trees_change=False)
        assert parameters(early) == 2 * 4
        assert serialized_bytes(early) == len(booster.model_to_string(num_iteration=2))
        assert serialized_bytes(early) < serialized_bytes(booster)

    def test_one_of_xgboost_too(self, xgb_booster: Any) -> None:
        from acetune.callbacks.xgboost import RoundModel

        early = RoundModel(xgb_booster, 2, None, math.nan, trees_change=False)
        assert parameters(early) == parameters(xgb_booster[:2])
        assert serialized_bytes(early) == serialized_bytes(xgb_booster[:2])
        whole = RoundModel(xgb_booster, 6, None, math.nan, trees_change=False)
        assert serialized_bytes(whole) == serialized_bytes(xgb_booster)

    def test_a_linear_one_cannot_be_cut_and_need_not_be(self) -> None:
        xgb = pytest.importorskip("xgboost")
        from acetune.callbacks.xgboost import RoundModel

        linear = xgb.train({"booster": "gblinear", "nthread": 1}, xgb.DMatrix(X, Y), 4)
        early = RoundModel(linear, 2, None, math.nan, trees_change=True)
        assert parameters(early) == 5
        assert serialized_bytes(early) == serialized_bytes(linear)

    def test_the_module_counts_and_not_its_scores(self) -> None:
        torch = pytest.importorskip("torch")
        from acetune.callbacks._weights import TorchCandidate

        net = torch.nn.Linear(3, 2)
        candidate = TorchCandidate(net, scores=torch.zeros(10_000))
        assert parameters(candidate) == 8
        assert serialized_bytes(candidate) == serialized_bytes(net)


def test_both_serve_as_checks_as_they_are() -> None:
    linear = pytest.importorskip("sklearn.linear_model").LogisticRegression().fit(X, Y)
    for check in (serialized_bytes, parameters):
        limit = Constraint("size", upper=10_000, check=check)
        found = call_check(check, "size", linear)
        assert isinstance(found, Estimate)
        assert limit.holds(found)
        check_constraint(limit, linear)


def test_no_framework_is_imported() -> None:
    import subprocess
    import sys

    code = (
        "import sys; from acetune.constraints.size import parameters, serialized_bytes\n"
        "serialized_bytes([1]); print([m for m in "
        "('numpy', 'torch', 'lightgbm', 'sklearn', 'keras', 'xgboost') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
