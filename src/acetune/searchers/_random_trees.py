"""Regression trees with random splits, in NumPy: all trees grow together, level by level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_DEEPEST = 12
_MOST_ROWS = 12_000  # in the sample of a tree


class RandomTrees:
    """Extremely randomised trees (Geurts et al. 2006), each on a bootstrap sample.

    A split is the best of ``tries`` random cuts through random features. One call of NumPy serves
    the nodes of all trees at one depth, so that small ensembles are fitted in milliseconds without
    any other library.

    Parameters
    ----------
    x, y:
        Rows of features between 0 and 1, and a number for each row.
    rng:
        Where the cuts and samples come from.
    trees, leaf, tries:
        How many trees; the fewest rows in a leaf; cuts tried at each node.
    """

    def __init__(
        self,
        x: Floats,
        y: Floats,
        rng: np.random.Generator,
        *,
        trees: int = 24,
        leaf: int = 2,
        tries: int = 6,
    ) -> None:
        rows, features = x.shape
        flat = np.ascontiguousarray(x).ravel()
        size = min(rows, _MOST_ROWS)
        sample = rng.integers(rows, size=trees * size)
        y, begin = y[sample], sample * features  # of each sampled row: where it begins in flat
        self.trees = trees
        self._depth = 0
        # of each node: what it is cut by, where, its first child, its mean; a leaf is its own child
        # and nothing lies beyond its cut, so that rows that have come to one stay there
        feature, cut = [np.zeros(trees, dtype=np.intp)], [np.full(trees, np.inf)]
        child, mean = [np.arange(trees)], [y.reshape(trees, size).mean(axis=1)]
        node = np.repeat(np.arange(trees), size)  # of each row, numbered within the level; sorted
        above, width = 0, trees  # nodes on higher levels, and on this one
        for _ in range(_DEEPEST):
            by, at = _best_cuts(flat, features, begin, y, node, width, rng, leaf, tries)
            is_cut = by >= 0
            if not is_cut.any():
                break
            first = 2 * np.cumsum(is_cut) - 2
            feature[-1], cut[-1] = np.maximum(by, 0), np.where(is_cut, at, np.inf)
            child[-1] = np.where(is_cut, above + width + first, child[-1])
            stays = is_cut[node]
            begin, y, node = begin[stays], y[stays], node[stays]
            node = first[node] + (flat[begin + by[node]] > at[node])
            order = np.argsort(node, kind="stable")
            begin, y, node = begin[order], y[order], node[order]
            above, width = above + width, 2 * int(is_cut.sum())
            feature.append(np.zeros(width, dtype=np.intp))
            cut.append(np.full(width, np.inf))
            child.append(above + np.arange(width))
            mean.append(np.bincount(node, y, minlength=width) / np.bincount(node, minlength=width))
            self._depth += 1
        self._feature, self._cut = np.concatenate(feature), np.concatenate(cut)
        self._child, self._mean = np.concatenate(child), np.concatenate(mean)

    def predict(self, x: Floats, trees: Ints) -> Floats:
        """The mean of what these trees say of each row."""
        flat = np.ascontiguousarray(x).ravel()
        node = np.repeat(np.asarray(trees), len(x))
        begin = np.tile(np.arange(len(x)) * x.shape[1], len(trees))  # of each row, in flat
        for _ in range(self._depth):
            right = flat.take(begin + self._feature.take(node)) > self._cut.take(node)
            node = self._child.take(node) + right
        found: Floats = self._mean[node].reshape(len(trees), len(x)).mean(axis=0)
        return found


def _best_cuts(
    flat: Floats,
    features: int,
    begin: Ints,
    y: Floats,
    node: Ints,
    width: int,
    rng: np.random.Generator,
    leaf: int,
    tries: int,
) -> tuple[Ints, Floats]:
    """For each node of a level the feature and the value to cut at; -1 where it stays a leaf."""
    count = np.bincount(node, minlength=width)
    large = count >= max(2 * leaf, 2)  # the others cannot be cut
    rows = large[node]
    begin, y, node = begin[rows], y[rows], node[rows]
    count = count[large]
    starts, total = np.cumsum(count) - count, np.bincount(node, y, minlength=width)[large]
    number = np.repeat(np.arange(len(count)), count)  # of each row's node, among the large ones
    best, by, at = np.full(width, -np.inf), np.full(width, -1), np.zeros(width)
    for _ in range(tries):
        tried, chance = rng.integers(features, size=width), rng.random(width)
        if not len(count):
            continue
        value = flat[begin + np.repeat(tried[large], count)]
        low, high = np.minimum.reduceat(value, starts), np.maximum.reduceat(value, starts)
        where = low + chance[large] * (high - low)
        left = value <= np.repeat(where, count)
        n_left = np.add.reduceat(left, starts, dtype=np.intp)
        sum_left = np.bincount(number, y * left, minlength=len(count))
        n_right, sum_right = count - n_left, total - sum_left
        # what a cut takes off the squared error, up to a constant
        gain = sum_left**2 / np.maximum(n_left, 1) + sum_right**2 / np.maximum(n_right, 1)
        better = (n_left >= leaf) & (n_right >= leaf) & (gain > best[large])
        at_large = np.flatnonzero(large)[better]
        best[at_large], by[at_large], at[at_large] = gain[better], tried[at_large], where[better]
    return by, at
