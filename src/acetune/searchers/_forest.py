"""A searcher that learns from every report: what a configuration is worth, at which step."""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from acetune.core.outcome import Curve, Curves, Outcome
from acetune.searchers._random_trees import Floats, RandomTrees
from acetune.searchers.searcher import Searcher, drop_tried, searched_part
from acetune.searchers.space import MISSING, Space

_START = 12  # trials that must have reported before anything is learned
_RANDOM = 0.2  # share of those after them that are
_GROWTH = 1.15  # the trees grow again when there are so many times as many reports
_CANDIDATES, _NEAR = 400, 0.5  # configurations that are compared; the share near the best ones
_ELITE, _REACH = 5, 0.15  # how many best ones, and how far from them
_DRAWN = 4  # trees that are asked at each suggestion
_DRAWS = 3  # random configurations at the start, of which the shortest is taken
_FEWEST_LENGTHS = 3  # trials from which on it is known how long others will be
_MOST_TRIALS, _MOST_CHECKS = 1500, 16  # that the trees learn from, and of each
_MOST_EARLIER = _MOST_TRIALS // 2  # trials of earlier studies: so that they leave room
# shares of its steps at which a trial is looked at
_SHARES = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 1.0])
_CLIP = 0.6  # quantile of the losses from which on all are as bad
_FEWEST_CHECKS = 4  # from which a limit is learned
_INVALID = 10.0  # on the scale of losses between 0 and 1: worse than any

_Checks: TypeAlias = Sequence[tuple[int, tuple[float, ...]]]


class ForestSearcher(Searcher):
    """Random trees over configuration and step: one forest for the objective, one per constraint.

    Every report and every check is an example, also of trials that were stopped early. A few trees
    drawn at random say how good a configuration could be at a step, and whether it would hold the
    limits there: a configuration is worth the best objective at a step that holds them, or, where
    none does, how near it comes. The most promising of many random configurations, half of them
    near the best ones so far, is tried next. The draw keeps the search from settling early
    (Thompson sampling), and some trials stay random.

    The first trials are random, and rather short ones, where the number of steps follows from the
    configuration: much is learned before much time is spent.

    A configuration may lack dimensions, as where one depends on the value of another: the trees
    treat that as a value of its own, and learn which configurations have which.

    The trees grow again at fixed numbers of reports. Everything random follows from the seed
    and the trial's number: a study that goes on after a crash suggests what it would have suggested
    without it.

    Parameters
    ----------
    space:
        What to search.
    points:
        Configurations to try first; open dimensions are drawn at random.
    seed:
        Makes the suggestions repeatable, given the same reports.
    """

    def __init__(
        self,
        space: Space,
        points: Sequence[Mapping[str, Any]] = (),
        seed: int | None = None,
    ) -> None:
        self._space = space
        self._points = [dict(point) for point in points]
        self._seed = int(np.random.default_rng(seed).integers(2**62)) if seed is None else seed
        self._told = _OutcomesAsCurves(space)
        self._curves: Curves = self._told
        self._earlier: list[Curve] = []
        self._learned: tuple[int, _Forests | _Lengths | None] = (0, None)

    def watch(self, curves: Curves) -> None:
        """Learn from these curves from now on, instead of from what is told."""
        self._curves = curves

    def learn(self, earlier: Sequence[Curve]) -> None:
        """Learn from trials of earlier studies too: they are examples like any other.

        Of very many trials some are drawn at random, so that they do not crowd out the study's own.
        """
        if len(earlier) > _MOST_EARLIER:
            best = heapq.nsmallest(_ELITE, range(len(earlier)), key=lambda i: _how_good(earlier[i]))
            drawn = np.random.default_rng([self._seed, 0, 0]).permutation(len(earlier)).tolist()
            kept = dict.fromkeys([*best, *drawn])  # each once, the best among them
            earlier = [earlier[i] for i in sorted(list(kept)[:_MOST_EARLIER])]
        self._earlier = list(earlier)
        self._learned = (0, None)

    def ask(self, trial: int) -> dict[str, Any]:
        """The next point to try first, or else the most promising configuration."""
        rng = np.random.default_rng([self._seed, trial])
        place = rng.random(len(self._space.dimensions))
        point = self._points.pop(0) if self._points else {}
        if not point:
            learned = self._learn()
            if isinstance(learned, _Lengths):
                others = rng.random((_DRAWS - 1, len(place)))
                place = learned.shortest(np.vstack([place, others]))
            elif learned is not None and rng.random() >= _RANDOM:
                place = learned.most_promising(rng)
        params = self._space.at(place.tolist(), point)
        self._told.asked[trial] = params
        return params

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        """How a trial ended: of use only where no curves are watched."""
        self._told.end(trial, outcome, params)

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial of an earlier session. A point that was tried then is not tried again."""
        searched = searched_part(self._space, params)
        drop_tried(self._points, searched)
        if outcome is None:
            self._points.insert(0, searched)
            self.ask(trial)
        else:
            self._told.asked[trial] = searched
            self._told.end(trial, outcome, None)

    # -- inside ----------------------------------------------------------------------------------

    def _learn(self) -> _Forests | _Lengths | None:
        """What was learned at the last of the fixed numbers of reports."""
        reports, due = self._curves.reports, 1
        # where much is known beforehand, trees take long to grow and a few reports say little
        least = max(1, sum(len(curve.steps) for curve in self._earlier) // 100)
        while (later := max(due + least, math.floor(due * _GROWTH))) <= reports:
            due = later
        if due != self._learned[0]:
            curves = [*self._earlier, *self._curves.first(due)]
            rng = np.random.default_rng([self._seed, 0, due])
            learned: _Forests | _Lengths | None = None
            if len(curves) >= _START:
                learned = _Forests(self._space, curves, rng)
            elif len(curves) >= _FEWEST_LENGTHS and len(set(_lengths(curves))) > 1:
                learned = _Lengths(self._space, curves, rng)
            self._learned = due, learned
        return self._learned[1]


class _OutcomesAsCurves:
    """What a searcher is told by ask and tell, as curves of one step each."""

    def __init__(self, space: Space) -> None:
        self.asked: dict[int, Mapping[str, Any]] = {}
        self._space, self._ended = space, list[Curve]()

    @property
    def reports(self) -> int:
        return len(self._ended)

    def first(self, reports: int) -> Iterator[Curve]:
        return iter(self._ended[:reports])

    def end(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None) -> None:
        asked = self.asked.pop(trial)
        ran = asked if params is None else searched_part(self._space, params)
        loss = math.inf if outcome.loss is None else outcome.loss
        checks = [(1, (outcome.violation or -1.0,))]  # by how much a limit holds is not told
        curve = Curve(ran, 1, array("q", [1]), array("d", [loss]), checks, ended=True)
        self._ended.append(curve)


def _lengths(curves: Sequence[Curve]) -> list[int]:
    """How many steps trials have in all; of one that did not say so: as many as any has made."""
    longest = max(1, *(curve.steps[-1] for curve in curves))
    return [curve.total_steps or longest for curve in curves]


class _Lengths:
    """How many steps a configuration will have."""

    def __init__(self, space: Space, curves: Sequence[Curve], rng: np.random.Generator) -> None:
        places = np.array([space.place(curve.params) for curve in curves])
        # lengths follow from the configuration without noise, mostly from one dimension: small
        # leaves, and enough cuts to find it
        tries = 4 * places.shape[1]
        self._trees = RandomTrees(places, np.log(_lengths(curves)), rng, leaf=1, tries=tries)

    def shortest(self, places: Floats) -> Floats:
        """The place that will have the fewest."""
        steps = self._trees.predict(places, np.arange(self._trees.trees))
        found: Floats = places[np.argmin(steps)]
        return found


class _Forests:
    """What was learned from curves: losses, and how far beyond each limit, by place and step."""

    def __init__(self, space: Space, curves: Sequence[Curve], rng: np.random.Generator) -> None:
        best = heapq.nsmallest(_ELITE, curves, key=_how_good)
        self._best = np.array([space.place(curve.params) for curve in best])
        if len(curves) > _MOST_TRIALS:
            chosen = rng.choice(len(curves), size=_MOST_TRIALS, replace=False)
            curves = [curves[i] for i in np.sort(chosen)]
        self._places = np.array([space.place(curve.params) for curve in curves])
        lengths = _lengths(curves)
        self._losses = self._learn_losses(curves, lengths, rng)
        limits = max((len(excess) for curve in curves for _, excess in curve.checks), default=0)
        found = [self._learn_limit(i, curves, lengths, rng) for i in range(limits)]
        self._limits = [forest for forest in found if forest is not None]
        self._presence = _Presence(self._places, rng)

    def most_promising(self, rng: np.random.Generator) -> Floats:
        """The best of many random places, as a few trees drawn at random see it."""
        width = self._places.shape[1]
        places = rng.random((_CANDIDATES, width))
        near = int(_NEAR * _CANDIDATES)
        around = self._best[rng.integers(len(self._best), size=near)]
        moved = np.abs(around + rng.normal(0.0, _REACH, around.shape))
        # thrown back at the bounds: cut off there, two workers would get the same corner
        moved = np.clip(1.0 - np.abs(1.0 - moved), 0.0, 1.0)
        moves = (rng.random(around.shape) < 0.5) & (around != MISSING)
        moves[~moves.any(axis=1)] = True  # what has been tried is not tried again
        moved = np.where(moves, moved, around)
        places[:near] = np.where(around == MISSING, places[:near], moved)
        # each place at each share of its steps
        rows = np.column_stack(
            [
                np.repeat(self._presence.without_missing(places), len(_SHARES), axis=0),
                np.tile(_SHARES, len(places)),
            ]
        )
        worth = self._losses.predict(rows, rng.integers(self._losses.trees, size=_DRAWN))
        beyond = np.full(len(rows), -np.inf)
        for forest in self._limits:
            drawn = rng.integers(forest.trees, size=_DRAWN)
            beyond = np.maximum(beyond, forest.predict(rows, drawn))
        worth = np.where(beyond > 0, _INVALID + beyond, worth)
        best: Floats = places[np.argmin(worth.reshape(len(places), -1).min(axis=1))]
        return best

    def _learn_losses(
        self, curves: Sequence[Curve], lengths: Sequence[int], rng: np.random.Generator
    ) -> RandomTrees:
        trials, shares, losses = [], [], []
        for i, (curve, length) in enumerate(zip(curves, lengths, strict=True)):
            wanted = np.unique(np.ceil(length * _SHARES))
            last = curve.steps[-1]
            if not curve.ended or last < wanted[0]:
                wanted = np.append(wanted[wanted <= last], last)
            # one that was stopped is taken to have stayed as it was
            at = np.minimum(np.searchsorted(curve.steps, wanted), len(curve.steps) - 1)
            trials += [i] * len(wanted)
            shares += (wanted / length).tolist()
            losses += np.asarray(curve.losses)[at].tolist()
        rows = np.column_stack([self._places[trials], shares])
        return RandomTrees(rows, _scaled(np.array(losses)), rng, leaf=3)

    def _learn_limit(
        self, limit: int, curves: Sequence[Curve], lengths: Sequence[int], rng: np.random.Generator
    ) -> RandomTrees | None:
        found = [
            (i, step / lengths[i], known[limit])
            for i, curve in enumerate(curves)
            for step, excess in _thinned(curve.checks)
            if not math.isnan((known := _known(excess))[limit])
        ]
        if len(found) < _FEWEST_CHECKS:
            return None
        trials, shares, beyond = map(np.array, zip(*found, strict=True))
        finite = np.abs(beyond[np.isfinite(beyond)])
        middle = (np.median(finite) if len(finite) else 0.0) or 1.0
        with np.errstate(over="ignore"):  # infinite is as good as 2
            scaled = np.clip(beyond / middle, -2.0, 2.0)
        return RandomTrees(np.column_stack([self._places[trials], shares]), scaled, rng)


class _Presence:
    """Which dimensions a configuration has, where some depend on the values of others.

    Nobody says so: it is learned from the configurations that were run, a forest for each dimension
    that some of them lack. One that is there more often may be what another depends on, and comes
    first.
    """

    def __init__(self, places: Floats, rng: np.random.Generator) -> None:
        there = places != MISSING
        known = np.flatnonzero(there.all(axis=0)).tolist()
        often = np.argsort(-there.sum(axis=0), kind="stable").tolist()
        self._forests: list[tuple[int, list[int], RandomTrees]] = []
        for dimension in (d for d in often if d not in known):
            if known:
                y = there[:, dimension].astype(float)
                tries = 2 * len(known) + 4  # enough to meet the one that decides
                forest = RandomTrees(places[:, known], y, rng, leaf=1, tries=tries)
                self._forests.append((dimension, list(known), forest))
            known.append(dimension)

    def without_missing(self, places: Floats) -> Floats:
        """The same places, with what such configurations lack marked as missing."""
        if not self._forests:
            return places
        found = places.copy()
        for dimension, known, forest in self._forests:
            lacks = forest.predict(found[:, known], np.arange(forest.trees)) < 0.5
            found[lacks, dimension] = MISSING
        return found


def _scaled(losses: Floats) -> Floats:
    """Between 0 for the best and 1 for a bad one and all worse: how bad is of no interest."""
    finite = losses[np.isfinite(losses)]
    if not len(finite):
        return np.ones_like(losses)
    most = np.abs(finite).max()
    if most > 1e300:  # the difference of two might be infinite
        finite, losses = finite / most, losses / most
    best, bad = finite.min(), np.quantile(finite, _CLIP)
    if bad <= best:
        return np.where(losses <= best, 0.0, 1.0)
    return np.asarray(np.minimum((losses - best) / (bad - best), 1.0))


def _known(excess: tuple[float, ...]) -> tuple[float, ...]:
    """How far beyond each limit; NaN where a check left one out because another was broken.

    Where none was, a number is missing because its check failed, which never holds.
    """
    if any(beyond > 0 for beyond in excess):
        return excess
    return tuple(math.inf if math.isnan(beyond) else beyond for beyond in excess)


def _thinned(checks: _Checks) -> _Checks:
    """Some of a trial's checks, the last one among them."""
    every = max(1, math.ceil(len(checks) / _MOST_CHECKS))
    return checks[::-every][::-1]


def _how_good(curve: Curve) -> tuple[float, float]:
    """Smaller is better: how near a trial came to the limits, then its loss there."""
    best = (math.inf, math.inf if curve.checks else min(curve.losses))
    for step, excess in curve.checks:
        violation = sum(beyond for beyond in _known(excess) if beyond > 0)
        at = min(bisect_left(curve.steps, step), len(curve.losses) - 1)
        best = min(best, (violation, curve.losses[at]))
    return best
