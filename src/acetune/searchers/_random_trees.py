"""Regression trees with random splits, in NumPy: all trees grow together, level by level."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]

_DEEPEST = 12


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
        rows = len(x)
        sample = rng.integers(rows, size=trees * rows)
        x, y = x[sample], y[sample]
        self.trees = trees
        self._depth = 0
        # of each node: what it is cut by (-1: a leaf), where, its first child, its mean
        feature, cut = [np.full(trees, -1)], [np.zeros(trees)]
        child, mean = [np.zeros(trees, dtype=np.intp)], [y.reshape(trees, rows).mean(axis=1)]
        node = np.repeat(np.arange(trees), rows)  # of each row, numbered within the level
        above, width = 0, trees  # nodes on higher levels, and on this one
        for _ in range(_DEEPEST):
            by, at = _best_cuts(x, y, node, width, rng, leaf, tries)
            is_cut = by >= 0
            if not is_cut.any():
                break
            first = 2 * np.cumsum(is_cut) - 2
            feature[-1], cut[-1] = by, at
            child[-1] = np.where(is_cut, above + width + first, 0)
            stays = is_cut[node]
            x, y, node = x[stays], y[stays], node[stays]
            node = first[node] + (x[np.arange(len(x)), by[node]] > at[node])
            above, width = above + width, 2 * int(is_cut.sum())
            count = np.bincount(node, minlength=width)
            feature.append(np.full(width, -1))
            cut.append(np.zeros(width))
            child.append(np.zeros(width, dtype=np.intp))
            mean.append(np.bincount(node, y, minlength=width) / np.maximum(count, 1))
            self._depth += 1
        self._feature, self._cut = np.concatenate(feature), np.concatenate(cut)
        self._child, self._mean = np.concatenate(child), np.concatenate(mean)

    def predict(self, x: Floats, trees: Ints) -> Floats:
        """The mean of what these trees say of each row."""
        node = np.repeat(np.asarray(trees), len(x))
        row = np.tile(np.arange(len(x)), len(trees))
        for _ in range(self._depth):
            by = self._feature[node]
            right = x[row, np.maximum(by, 0)] > self._cut[node]
            node = np.where(by >= 0, self._child[node] + right, node)
        found: Floats = self._mean[node].reshape(len(trees), len(x)).mean(axis=0)
        return found


def _best_cuts(
    x: Floats, y: Floats, node: Ints, width: int, rng: np.random.Generator, leaf: int, tries: int
) -> tuple[Ints, Floats]:
    """For each node of a level the feature and the value to cut at; -1 where it stays a leaf."""
    order = np.argsort(node, kind="stable")
    x, y, node = x[order], y[order], node[order]
    count = np.bincount(node, minlength=width)
    total = np.bincount(node, y, minlength=width)
    filled = count > 0
    begins = (np.cumsum(count) - count)[filled]
    best, by, at = np.full(width, -np.inf), np.full(width, -1), np.zeros(width)
    for _ in range(tries):
        tried = rng.integers(x.shape[1], size=width)
        column = x[np.arange(len(x)), tried[node]]
        low, high = np.zeros(width), np.zeros(width)
        if len(column):
            low[filled] = np.minimum.reduceat(column, begins)
            high[filled] = np.maximum.reduceat(column, begins)
        where = low + rng.random(width) * (high - low)
        left = column <= where[node]
        n_left = np.bincount(node[left], minlength=width)
        sum_left = np.bincount(node[left], y[left], minlength=width)
        n_right, sum_right = count - n_left, total - sum_left
        # what a cut takes off the squared error, up to a constant
        gain = sum_left**2 / np.maximum(n_left, 1) + sum_right**2 / np.maximum(n_right, 1)
        better = (n_left >= leaf) & (n_right >= leaf) & (gain > best)
        best = np.where(better, gain, best)
        by, at = np.where(better, tried, by), np.where(better, where, at)
    return by, at
