"""The size of a model: serialised bytes, and parameters. Both serve as ``check=`` as they are.

Frameworks are never imported here: a model of one that is not loaded cannot come.
"""

from __future__ import annotations

import json
import math
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from acetune.core.errors import GoalError

__all__ = ["parameters", "serialized_bytes"]

_Check = TypeVar("_Check", bound=Callable[..., int])


def _exact(check: _Check) -> _Check:
    """Mark a check whose value is no estimate: a certificate compares it with the limit."""
    check.exact = True  # type: ignore[attr-defined]
    return check


@_exact
def serialized_bytes(model: Any) -> int:
    """How many bytes a model takes when it is saved.

    =========================  ==================================================================
    a ``pathlib.Path``         the file, or all files of the folder
    a PyTorch module           what ``torch.save(model.state_dict())`` writes
    a booster of LightGBM      the text of its model file, up to its best iteration if it has one
    a booster of XGBoost       its model file, in the default format
    ``bytes``                  their number
    anything else              its pickle; of a model of Keras that is its ``.keras`` file
    =========================  ==================================================================

    Of what a callback of :mod:`acetune.callbacks` reports, the model inside counts, a booster up to
    the round reported. Nothing is written to disk, and nothing but a booster's is held in memory.

    >>> serialized_bytes(b"12345")
    5
    >>> serialized_bytes(list(range(1000))) < serialized_bytes(list(range(2000)))
    True
    """
    model, rounds = _unwrapped(model)
    if isinstance(model, Path):
        return _bytes_on_disk(model)
    if isinstance(model, str):
        raise GoalError(f"got the string {model!r}: report a path as pathlib.Path({model!r})")
    if isinstance(model, (bytes, bytearray)):
        return len(model)
    if _is(model, "lightgbm", "Booster"):
        return len(model.model_to_string(num_iteration=rounds).encode())
    if _is(model, "xgboost", "Booster"):
        return len(_first_rounds(model, rounds).save_raw())
    sink = _Counter()
    # on PyTorch a model of Keras is a module too; it is to weigh the same on every backend
    if _is(model, "torch.nn", "Module") and not _is(model, "keras", "Model"):
        sys.modules["torch"].save(model.state_dict(), sink)
        return sink.count
    try:
        pickle.dump(model, sink, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, TypeError, AttributeError) as first:
        import cloudpickle  # takes functions and classes of notebooks, as the engines do

        sink = _Counter()
        try:
            cloudpickle.dump(model, sink)
        except Exception:
            raise GoalError(
                f"a {type(model).__qualname__} cannot be pickled to measure its size ({first}); "
                "report a pathlib.Path, or give a check of your own"
            ) from None
    return sink.count


@_exact
def parameters(model: Any, trainable_only: bool = False) -> int:
    """How many numbers a model has learnt.

    =================================  ============================================================
    PyTorch modules                    parameters; with ``trainable_only`` those with a gradient
    models of Keras                    weights; with ``trainable_only`` the trainable ones
    linear models, MLPs (sklearn)      coefficients and intercepts
    trees and forests (sklearn)        leaves: the values that can come out
    LightGBM, XGBoost                  leaves, up to the best iteration if LightGBM has one; and the
                                       coefficients of linear trees, of ``gblinear`` those only
    CatBoost                           values of leaves, one per class
    =================================  ============================================================

    ``trainable_only`` changes nothing for the others. A model of another kind is an error.

    >>> import numpy as np
    >>> class Linear:
    ...     coef_, intercept_ = np.zeros((1, 5)), np.zeros(1)
    >>> parameters(Linear())
    6
    """
    model, rounds = _unwrapped(model)
    if _is(model, "keras", "Model"):
        if not model.built:
            raise GoalError(f"the Keras model {model.name!r} has no weights yet: build or fit it")
        weights = model.trainable_weights if trainable_only else model.weights
        return sum(math.prod(weight.shape) for weight in weights)
    if _is(model, "torch.nn", "Module"):
        tensors = list(model.parameters())
        if not tensors:
            raise GoalError(
                f"{_described(model)} has no parameters of its own; give a check of your own, such "
                "as lambda model: parameters(model.inner)"
            )
        return sum(p.numel() for p in tensors if p.requires_grad or not trainable_only)
    found = _leaves(model, rounds)
    if found is None:
        found = _coefficients(model)
    if found is None:
        raise GoalError(
            f"no rule for the parameters of {_described(model)}; give a check of your own, such as "
            "lambda model: parameters(model.inner)"
        )
    return found


def _leaves(model: Any, rounds: int | None = None) -> int | None:
    """Leaves of a tree, or of all trees of an ensemble; None for anything else.

    Of boosters that fit linear models the coefficients too.
    """
    if _is(model, "lightgbm", "LGBMModel"):
        model = model.booster_
    elif _is(model, "xgboost", "XGBModel"):
        model = model.get_booster()
    if _is(model, "lightgbm", "Booster"):
        return _lightgbm_numbers(model.model_to_string(num_iteration=rounds))
    if _is(model, "xgboost", "Booster"):
        return _xgboost_numbers(_first_rounds(model, rounds))
    if _is(model, "catboost", "CatBoost"):
        return len(model.get_leaf_values())
    if hasattr(model, "tree_"):
        return int(model.tree_.n_leaves)
    if hasattr(model, "estimators_"):
        import numpy as np  # those who have estimators have it

        members = [_leaves(member) for member in np.ravel(model.estimators_)]
        return None if None in members else sum(count for count in members if count is not None)
    return None


def _lightgbm_numbers(text: str) -> int:
    """Leaves, and the coefficients of linear ones, from a model file."""
    total = 0
    for line in text.splitlines():
        name, _, values = line.partition("=")
        if name in ("num_leaves", "num_features"):  # of a tree; of each leaf of a linear one
            total += sum(map(int, values.split()))
    if not total:
        raise GoalError("the LightGBM model has no rounds yet: train it")
    return total


def _xgboost_numbers(booster: Any) -> int:
    """Leaves; of a linear model its weights and biases.

    From the model file: in a dump of trees, a feature may be called what a leaf is called.
    """
    saved = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    if saved["name"] == "gblinear":
        found = len(saved["model"]["weights"])
    else:
        trees = saved.get("gbtree", saved)["model"]["trees"]  # dart has its trees one level down
        sizes = [tree["tree_param"] for tree in trees]
        nodes = [int(size["num_nodes"]) - int(size["num_deleted"]) for size in sizes]
        found = sum((count + 1) // 2 for count in nodes)  # one leaf more than splits
    if not found:
        raise GoalError("the XGBoost model has no rounds yet: train it")
    return found


def _is_linear(booster: Any) -> bool:
    learner = json.loads(booster.save_config())["learner"]
    return bool(learner["gradient_booster"]["name"] == "gblinear")


def _coefficients(model: Any) -> int | None:
    """Sizes of the arrays that scikit-learn's linear models and networks have."""
    for slopes, constants in (("coefs_", "intercepts_"), ("coef_", "intercept_")):
        if hasattr(model, slopes):
            fitted = [getattr(model, slopes)]
            if getattr(model, "fit_intercept", True):  # it is set to 0 where none is fitted
                fitted.append(getattr(model, constants, []))
            return _numbers(fitted)
    return None


def _numbers(value: Any) -> int:
    if isinstance(value, (list, tuple)):
        return sum(_numbers(part) for part in value)
    return math.prod(getattr(value, "shape", ()))


def _unwrapped(model: Any) -> tuple[Any, int | None]:
    """The model in what one of our callbacks reports, and its rounds if it is a booster.

    Scores that are reported with a model are no part of it.
    """
    if type(model).__module__.startswith("acetune.callbacks."):
        if hasattr(model, "booster"):
            return model.booster, model.rounds
        if hasattr(model, "model"):
            return model.model, None
    return model, None


def _first_rounds(booster: Any, rounds: int | None) -> Any:
    """A booster of XGBoost, cut where it has more rounds than that.

    A linear one has as many coefficients in every round.
    """
    whole = rounds in (None, booster.num_boosted_rounds()) or _is_linear(booster)
    return booster if whole else booster[:rounds]


def _is(model: Any, module: str, name: str) -> bool:
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(model, kind)


def _described(model: Any) -> str:
    kind = type(model)
    return f"a {kind.__module__}.{kind.__qualname__}"


def _bytes_on_disk(path: Path) -> int:
    if not path.exists():
        raise GoalError(f"there is no file or folder {path} to measure")
    files = [path] if path.is_file() else [found for found in path.rglob("*") if found.is_file()]
    size = sum(file.stat().st_size for file in files)
    if not size:
        raise GoalError(f"{path} is empty: no model is as small as that")
    return size


class _Counter:
    """A file to write to that keeps nothing but the number of bytes."""

    def __init__(self) -> None:
        self.count = 0

    def write(self, data: Any) -> int:
        size = memoryview(data).nbytes
        self.count += size
        return size

    def flush(self) -> None:
        pass
