"""What users return from a check or ``confirm``, with its evidence: a share, a mean."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence, Sized
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from acetune.certification.evidence import Counts, Evidence, Measured, Parts, Rows
from acetune.core.errors import GoalError
from acetune.core.numbers import as_number, as_whole, is_number


class Share(Measured):
    """A share with its counts, for ``confirm``: so many of so many rows.

    Its bound is exact (Clopper and Pearson), so that it can be certified at any number of rows.

    Parameters
    ----------
    count, rows:
        How many rows have the property, of how many that were drawn independently.

    >>> missed = Share(12, 400)
    >>> missed.value
    0.03
    """

    def __new__(cls, count: int, rows: int) -> Self:
        """The share, with a standard error that has a success and a failure added."""
        count = as_whole(count, "count", 0, GoalError)
        rows = as_whole(rows, "rows", 0, GoalError)
        if rows < 1 or count > rows:
            raise GoalError(f"Share needs 0 <= count <= rows, and a row, got {count} of {rows}")
        p = (count + 1) / (rows + 2)
        made = super().__new__(cls, count / rows, math.sqrt(p * (1 - p) / rows))
        made.evidence = Counts(count, rows)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        counts = self.evidence
        assert isinstance(counts, Counts)
        return Share, (counts.count, counts.rows)


class Mean(Measured):
    """The mean of a bounded value per row, for ``confirm``: a loss between 0 and 1, say.

    Its bound needs no assumption about the distribution: only the range, and independent rows.

    Parameters
    ----------
    values:
        One value per row.
    low, high:
        What a value can be, known before looking at the data.
    clusters:
        Where rows are not independent, what they have in common: rows of one person, say. The value
        is then the mean over clusters: each counts once, with the mean of its rows, however many
        they are. That is what the limit is about, and what is bounded; not the mean over rows.

    >>> round(Mean([0.0, 1.0, 0.5, 0.5]).value, 2)
    0.5
    >>> Mean([1.0, 1.0, 1.0, 0.0], clusters=["ann", "ann", "ann", "bob"]).value
    0.5
    """

    def __new__(
        cls,
        values: Sequence[float],
        low: float = 0.0,
        high: float = 1.0,
        clusters: Sequence[Any] | None = None,
    ) -> Self:
        """The mean with its standard error."""
        found = _numbers(values)
        if not (is_number(low) and is_number(high) and low < high):
            raise GoalError(f"Mean(low=, high=) must be numbers, low < high, got {low!r}, {high!r}")
        outside = ~((found >= low) & (found <= high))  # NaN too
        if outside.any():
            raise GoalError(
                f"Mean(values) must lie between low={low:g} and high={high:g}; row "
                f"{int(outside.argmax())} has {found[outside][0]:g}"
            )
        evidence: Evidence = Rows(tuple(found.tolist()), float(low), float(high))
        if clusters is not None:
            found = cluster_means(found, clusters)
            weights = np.full(len(found), 1 / len(found))
            parts = (found - low) / (high - low) * weights
            evidence = Parts(
                tuple(parts.tolist()), tuple(weights.tolist()), low=float(low), high=float(high)
            )
        mean = float(found.mean())
        stderr = float(found.std(ddof=1)) / math.sqrt(len(found)) if len(found) > 1 else 0.0
        made = super().__new__(cls, mean, stderr)
        made.evidence = evidence
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (float(self.value), float(self.stderr), self.evidence)


def _numbers(values: Any) -> NDArray[np.float64]:
    """One number per row, of what is one: NumPy makes numbers of texts and times as well."""
    given = np.ma.getdata(np.asanyarray(values))
    hidden = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    if hidden is not None and hidden.any():
        row = int(np.flatnonzero(hidden)[0])
        raise GoalError(f"Mean(values) is masked in row {row}: leave such rows out")
    if given.ndim != 1 or not len(given):
        raise GoalError(f"Mean(values) needs one number per row, got shape {given.shape}")
    if given.dtype.kind == "O":  # a frame's own kinds of column, or Python's objects
        return np.array([as_number(value, "Mean(values)") for value in given])
    if given.dtype.kind not in "buif":
        raise GoalError(f"Mean(values) must be numbers, got an array of {given.dtype}")
    return given.astype(float)


def _again(value: float, stderr: float, evidence: Evidence) -> Measured:
    return Measured(value, stderr, evidence)


def cluster_means(values: NDArray[np.float64], clusters: Sequence[Any]) -> NDArray[np.float64]:
    """The mean of each cluster.

    >>> cluster_means(np.array([1.0, 0.0, 0.25, 0.5]), ["a", "a", "b", "c"]).tolist()
    [0.5, 0.25, 0.5]
    """
    if not isinstance(clusters, Sized):
        raise GoalError(f"Mean(clusters) needs one name per row, got {clusters!r}")
    if len(clusters) != len(values):
        raise GoalError(f"{len(clusters)} clusters for {len(values)} rows")
    for row, name in enumerate(clusters):
        if not isinstance(name, Hashable):
            raise GoalError(f"Mean(clusters) needs one name per row; row {row} has {name!r}")
        if _is_missing(name):  # each NaN would be a cluster of its own
            raise GoalError(f"row {row} has no cluster ({name}): name one, or leave the row out")
    names = {name: place for place, name in enumerate(dict.fromkeys(clusters))}
    codes = [names[name] for name in clusters]
    return np.bincount(codes, values, len(names)) / np.bincount(codes, minlength=len(names))


def _is_missing(name: Any) -> bool:
    """None, NaN, and pandas' own, which refuse to be compared."""
    if isinstance(name, str):
        return False
    return name is None or str(name) in ("<NA>", "NaT") or bool(name != name)
