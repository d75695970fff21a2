"""Random trees beside a slow walk through their arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.searchers._random_trees import RandomTrees
from properties import examples


def data(rows: int, features: int, seed: int = 0, levels: int | None = None) -> tuple[Any, Any]:
    """Rows at random, on a few levels where there should be ties, and something to learn."""
    rng = np.random.default_rng(seed)
    x = rng.random((rows, features))
    if levels is not None:
        x = np.floor(x * levels) / levels
    return x, np.sin(5 * x[:, 0]) + x.sum(axis=1) ** 2


def grown(x: Any, y: Any, seed: int = 0, **options: Any) -> RandomTrees:
    return RandomTrees(x, y, np.random.default_rng(seed), **options)


def leaf_of(forest: RandomTrees, tree: int, row: Any) -> int:
    """The leaf that a row falls into, cut by cut."""
    node = tree
    while forest._child[node] != node:
        right = row[forest._feature[node]] > forest._cut[node]
        node = int(forest._child[node]) + int(right)
    return node


def walked(forest: RandomTrees, x: Any, trees: list[int]) -> list[float]:
    return [
        sum(float(forest._mean[leaf_of(forest, tree, row)]) for tree in trees) / len(trees)
        for row in x
    ]


def sampled(x: Any, y: Any, seed: int, trees: int) -> tuple[Any, Any]:
    """What each tree was grown on: the first numbers that are drawn."""
    sample = np.random.default_rng(seed).integers(len(x), size=trees * len(x))
    return x[sample].reshape(trees, len(x), -1), y[sample].reshape(trees, len(x))


cases = given(
    rows=st.integers(1, 60),
    features=st.integers(1, 4),
    seed=st.integers(0, 99),
    levels=st.sampled_from([None, 1, 2, 5]),
    leaf=st.integers(1, 9),
    trees=st.integers(1, 5),
)


@cases
@examples(60)
def test_it_predicts_what_a_walk_through_each_tree_finds(
    rows: int, features: int, seed: int, levels: int | None, leaf: int, trees: int
) -> None:
    x, y = data(rows, features, seed, levels)
    forest = grown(x, y, seed, trees=trees, leaf=leaf)
    assert forest.trees == trees
    asked = np.concatenate([x, data(30, features, seed + 1)[0]])
    drawn = [*range(trees), 0]  # one may be drawn twice
    found = forest.predict(asked, np.array(drawn))
    assert found == pytest.approx(walked(forest, asked, drawn), rel=1e-12)
    assert np.isfinite(found).all()
    assert found.min() >= y.min() - 1e-9 and found.max() <= y.max() + 1e-9


@cases
@examples(60)
def test_leaves_hold_the_means_of_enough_rows(
    rows: int, features: int, seed: int, levels: int | None, leaf: int, trees: int
) -> None:
    x, y = data(rows, features, seed, levels)
    forest = grown(x, y, seed, trees=trees, leaf=leaf)
    for tree, (its_x, its_y) in enumerate(zip(*sampled(x, y, seed, trees), strict=True)):
        leaves = np.array([leaf_of(forest, tree, row) for row in its_x])
        for node in np.unique(leaves):
            mine = its_y[leaves == node]
            assert len(mine) >= min(leaf, rows)
            assert forest._mean[node] == pytest.approx(mine.mean(), rel=1e-9, abs=1e-12)


def test_every_node_belongs_to_one_tree() -> None:
    forest = grown(*data(80, 3), trees=7)
    inner = np.flatnonzero(forest._child != np.arange(len(forest._child)))
    children = np.concatenate([forest._child[inner], forest._child[inner] + 1])
    assert len(inner) > 7
    assert sorted([*range(7), *children.tolist()]) == list(range(len(forest._feature)))


def test_the_same_chance_grows_the_same_trees() -> None:
    x, y = data(50, 3)
    one, same, other = (grown(x, y, seed) for seed in (1, 1, 2))
    asked, all_trees = data(40, 3, 5)[0], np.arange(one.trees)
    assert (one.predict(asked, all_trees) == same.predict(asked, all_trees)).all()
    assert (one.predict(asked, all_trees) != other.predict(asked, all_trees)).any()


def test_what_it_is_given_stays_as_it_is() -> None:
    x, y = data(50, 3)
    before = x.copy(), y.copy()
    grown(x, y)
    assert (x == before[0]).all() and (y == before[1]).all()


@pytest.mark.parametrize("value", [0.0, -3.5, 1e100])
def test_a_constant_is_learned_as_it_is(value: float) -> None:
    x, _ = data(40, 2)
    forest = grown(x, np.full(40, value))
    assert forest.predict(x, np.arange(4)) == pytest.approx(np.full(40, value), rel=1e-12)


def test_one_row_and_rows_that_are_all_the_same() -> None:
    for rows in (1, 20):
        x, y = np.full((rows, 3), 0.25), np.full(rows, 2.0)
        forest = grown(x, y)
        assert len(forest._feature) == forest.trees  # nothing to cut
        assert forest.predict(np.random.default_rng(0).random((5, 3)), np.arange(24)) == (
            pytest.approx([2.0] * 5)
        )


def test_a_tree_takes_a_sample_of_very_many_rows() -> None:
    x, y = data(50_000, 2)
    forest = grown(x, y, trees=3)
    assert forest.predict(x[:100], np.arange(3)) == pytest.approx(y[:100], abs=0.5)
    assert len(forest._feature) < 3 * 2 * 12_000


def test_no_row_is_asked_for() -> None:
    forest = grown(*data(30, 2))
    assert forest.predict(np.empty((0, 2)), np.arange(3)).shape == (0,)


@pytest.mark.parametrize("features", [1, 2, 8])
def test_it_learns_a_function_far_better_than_the_mean(features: int) -> None:
    x, y = data(300, features)
    asked, wanted = data(300, features, 1)
    found = grown(x, y).predict(asked, np.arange(24))
    assert ((found - wanted) ** 2).mean() < 0.35 * wanted.var()
