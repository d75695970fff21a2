"""What is read out of a LightGBM booster while it grows: its trees as text, and its scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from acetune.callbacks._boosting import Array

_SIZES, _BLANK, _END = "\ntree_sizes=", "\n\n", "end of trees"


class TreeText:
    """The text of a booster that grows, at any of its rounds.

    Writing trees as text is most of the cost of keeping a LightGBM model: all of them at each new
    best would make it quadratic in the number of rounds. So the text of earlier trees is held, and
    only those that have come since are written.
    """

    def __init__(self) -> None:
        self._trees: list[str] = []

    def at(self, booster: Any, rounds: int) -> str:
        """What ``booster.model_to_string(num_iteration=rounds)`` gives, to be loaded again.

        Only the listing of feature importances differs, which LightGBM does not read.
        """
        wide = booster.num_model_per_iteration()
        start = max(0, min(len(self._trees) // wide, rounds - 1))  # what surrounds trees is needed
        text: str = booster.model_to_string(start_iteration=start, num_iteration=rounds - start)
        found = _split(text)
        if found is None:  # a format that is not known here
            whole: str = booster.model_to_string(num_iteration=rounds)
            return whole
        head, new, tail = found
        if start * wide == len(self._trees):
            first = len(self._trees)
            self._trees += [_numbered(tree, first + i) for i, tree in enumerate(new)]
        trees = self._trees[: rounds * wide]
        sizes = " ".join(str(len(tree)) for tree in trees)
        return "".join([head, _SIZES, sizes, _BLANK, *trees, tail])


def _split(text: str) -> tuple[str, list[str], str] | None:
    """What stands before the trees, the trees, and what stands after them; None if unclear."""
    head, _, rest = text.partition(_SIZES)
    sizes, _, rest = rest.partition(_BLANK)
    trees: list[str] = []
    at = 0
    for size in sizes.split():  # of plain ASCII: as many characters as bytes
        trees.append(rest[at : at + int(size)])
        at += int(size)
    sound = all(tree.startswith("Tree=") for tree in trees)
    return (head, trees, rest[at:]) if sound and rest.startswith(_END, at) else None


def _numbered(tree: str, number: int) -> str:
    """The tree under its number in the whole model."""
    _, _, body = tree.partition("\n")
    return f"Tree={number}\n{body}"


def kept_scores(booster: Any, name: str) -> Array:
    """A copy of the predictions that a booster keeps for one of its data sets."""
    names: list[str] = booster.name_valid_sets
    index = 1 + names.index(name) if name in names else 0
    read = getattr(booster, "_Booster__inner_predict", None)
    if read is not None:  # the public way below evaluates all metrics once more
        return np.array(read(data_idx=index))
    seen: list[Array] = []

    def keep(scores: Array, _: Any) -> tuple[str, float, bool]:
        seen.append(np.array(scores))
        return "seen", 0.0, True

    booster.eval([booster.train_set, *booster.valid_sets][index], name, keep)
    return seen[0]


def train_name(booster: Any) -> str:
    """What a booster calls its training data among what it evaluates; empty if that is not clear.

    A validation set may have the name that the training data have by default.
    """
    name: str = getattr(booster, "_train_data_name", "training")
    return "" if name in booster.name_valid_sets else name
