"""The searcher that learns from every report."""

from __future__ import annotations

import itertools
import json
import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import acetune
from acetune import ACE, Constraint, Stopper, Trial
from acetune.core.outcome import Curve, Outcome, StudyCurves
from acetune.replay.simulator import simulate
from acetune.replay.synthetic import synthetic_table
from acetune.searchers._forest import ForestSearcher, _how_good, _Presence
from acetune.searchers.space import MISSING, Dimension, Space
from properties import examples
from run.helpers import rows, tune
from searchers.helpers import SPACE, SQUARE

NAN, INF = math.nan, math.inf


class Given:
    """Curves that a test has made up, one whole trial after another."""

    def __init__(self, curves: Sequence[Curve]) -> None:
        self.curves, self.looks = list(curves), list[int]()

    @property
    def reports(self) -> int:
        return sum(len(curve.steps) for curve in self.curves)

    def first(self, reports: int) -> Iterator[Curve]:
        self.looks.append(reports)
        for curve in self.curves:
            if reports < len(curve.steps):
                return
            reports -= len(curve.steps)
            yield curve


def curve(
    params: Mapping[str, Any],
    losses: Sequence[float] = (1.0,),
    checks: Sequence[tuple[int, tuple[float, ...]]] = (),
    total_steps: int | None = None,
    steps: Sequence[int] | None = None,
    ended: bool = True,
) -> Curve:
    steps = range(1, len(losses) + 1) if steps is None else steps
    return Curve(params, total_steps, array("q", steps), array("d", losses), checks, ended)


def somewhere(n: int, space: Space = SQUARE) -> list[dict[str, Any]]:
    places = np.random.default_rng(n).random((n, len(space.dimensions)))
    return [space.at(place.tolist()) for place in places]


def suggested(
    curves: Sequence[Curve], n: int = 40, space: Space = SQUARE, seed: int = 0
) -> list[dict[str, Any]]:
    """What it suggests once it knows these curves."""
    searcher = ForestSearcher(space, seed=seed)
    searcher.watch(Given(curves))
    found = [searcher.ask(number) for number in range(1, n + 1)]
    for params in found:
        assert list(params) == space.names
        assert all(space.dimensions[name].contains(value) for name, value in params.items())
    return found


def share(found: Sequence[Mapping[str, Any]], wanted: Callable[[Any], bool]) -> float:
    return sum(map(wanted, found)) / len(found)


# -- what follows from what ----------------------------------------------------------------------


def train(trial: Trial) -> None:
    x, y = trial.params["x"], trial.params["y"]
    for step in trial.steps(4):
        value = (x - 0.7) ** 2 + y + 1 / step
        trial.report(value, model=x - y, primary_cost_s=1.0, constraint_cost_s={"gap": 1.0})


LIMIT = Constraint("gap", upper=0.4, check=lambda model: model)


def configurations(study: Path, *max_trials: int) -> list[dict[str, Any]]:
    """What a study has tried, over several sessions."""
    for most in max_trials:
        tune(
            train,
            study,
            space={"x": acetune.uniform(0.0, 1.0), "y": acetune.uniform(0.0, 1.0)},
            searcher="forest",
            seed=5,
            max_trials=most,
            constraints=[LIMIT],
            points=[{"x": 0.5}],
        )
    found = rows(study, "SELECT params FROM trials ORDER BY trial, attempt")
    return [json.loads(row["params"]) for row in found]


def test_a_resumed_study_suggests_what_an_uninterrupted_one_would_have(tmp_path: Path) -> None:
    whole = configurations(tmp_path / "whole.db", 40)
    assert len(whole) == 40 and whole[0]["x"] == 0.5
    assert configurations(tmp_path / "in parts.db", 1, 15, 27, 40) == whole
    assert share(whole[25:], lambda p: p["y"] < 0.4) > 0.6  # it has learned


class Event(NamedTuple):
    """Something that happens to one of some trials."""

    trial: int
    kind: str
    loss: float
    excess: tuple[float, ...]


numbers = st.floats(-2.0, 2.0, width=16)
events = st.builds(
    Event,
    trial=st.integers(1, 5),
    kind=st.sampled_from(["report", "report", "check", "end", "end with a check", "fail"]),
    loss=numbers | st.just(INF),
    excess=st.tuples(numbers, numbers | st.just(NAN)),
)


def played(happened: Sequence[Event], upto: float = INF) -> StudyCurves:
    """The curves of a study in which this happens, cut before one report too many."""
    limits = [Constraint("a", upper=1.0), Constraint("b", upper=1.0)]
    policy = ACE(interval=1, gate=False, truncation=0.5)
    stopper = Stopper(objective="loss", mode="min", constraints=limits, policy=policy)
    handles: dict[int, Any] = {}
    for trial, kind, loss, excess in happened:
        if trial not in handles:
            handles[trial] = stopper.start(trial, None if trial == 1 else 4)
        handle = handles[trial]
        if handle.state != "running":
            continue
        step, measured = handle.record.progress.last_step + 1, dict(zip("ab", excess, strict=True))
        if kind in ("report", "check"):
            if stopper.history.reports == upto:
                break
            checked = measured if kind == "check" else None
            handle.observe(step, loss, checked, 1.0, 1.0 if checked else None)
        elif kind == "fail":
            handle.fail("lost")
        elif kind == "end with a check" and step > 1:
            handle.finish(measured, 1.0)
        else:
            handle.finish()
    return StudyCurves(stopper.history, lambda trial: {"x": trial})


@given(happened=st.lists(events, max_size=40), data=st.data())
@examples(150)
def test_curves_are_those_of_the_history_cut_there(happened: list[Event], data: Any) -> None:
    longer = played(happened)
    cut = data.draw(st.integers(0, longer.reports))
    earlier = played(happened, cut)
    assert earlier.reports == cut
    assert repr(list(longer.first(cut))) == repr(list(earlier.first(cut)))  # NaN is not NaN
    assert sum(len(curve.steps) for curve in earlier.first(cut)) == cut


def test_what_curves_hold() -> None:
    found = list(
        played(
            [
                Event(2, "report", 3.0, (0.0, 0.0)),
                Event(1, "check", INF, (2.0, NAN)),
                Event(2, "check", 1.0, (0.0, 1.5)),
                Event(2, "end with a check", 0.0, (0.5, 0.5)),
                Event(1, "report", 2.0, (0.0, 0.0)),
            ]
        ).first(4)
    )
    assert [curve.params["x"] for curve in found] == [2, 1]
    assert found[0].losses.tolist() == [3.0, 1.0] and found[0].total_steps == 4
    assert found[0].checks == [(2, (-1.0, 0.5)), (2, (-0.5, -0.5))]
    assert repr(found[1].checks) == "[(1, (1.0, nan))]"
    assert found[1].losses.tolist() == [INF, 2.0] and found[1].total_steps is None


def bowl(n: int) -> list[Curve]:
    """Best at (0.8, 0.2), where x above 0.6 is not allowed."""
    return [
        curve(
            p,
            [(p["x"] - 0.8) ** 2 + (p["y"] - 0.2) ** 2 + 1 / step for step in range(1, 5)],
            [(4, (p["x"] - 0.6,))],
            total_steps=4,
        )
        for p in somewhere(n)
    ]


def test_it_begins_with_short_trials() -> None:
    space = Space({"x": acetune.uniform(0.0, 1.0), "epochs": acetune.lograndint(1, 1000)})

    def known(total_steps: Callable[[Mapping[str, Any]], int]) -> list[Curve]:
        return [curve(p, total_steps=total_steps(p), ended=False) for p in somewhere(8, space)]

    def median(curves: Sequence[Curve]) -> float:
        return float(np.median([p["epochs"] for p in suggested(curves, 300, space)]))

    random = median([])
    assert 20 < random < 50  # of numbers up to 1000, on a log scale
    assert median(known(lambda p: p["epochs"])) < random / 2
    # where it does not matter, it draws as before
    assert suggested(known(lambda p: 40), 300, space) == suggested([], 300, space)
    assert suggested(known(lambda p: p["epochs"])[:2], 300, space) == suggested([], 300, space)
    # of which dimension it follows is learned
    shorter = suggested(known(lambda p: 1 + int(1000 * p["x"])), 300, space)
    assert np.median([p["x"] for p in shorter]) < 0.4
    assert share(shorter, lambda p: p["epochs"] > random) > 0.3


def test_a_seed_and_the_reports_repeat_the_suggestions() -> None:
    first = suggested(bowl(60))
    assert suggested(bowl(60)) == first
    assert suggested(bowl(60), seed=1) != first
    assert suggested(bowl(61)[:-1], seed=0) != first  # others
    assert len({tuple(params.values()) for params in first}) == 40  # no two workers get the same


def test_suggestions_follow_from_the_trials_number_and_not_from_what_was_asked_before() -> None:
    searcher = ForestSearcher(SQUARE, seed=0)
    searcher.watch(Given(bowl(60)))
    assert [searcher.ask(number) for number in (40, 7)] == [suggested(bowl(60))[n] for n in (39, 6)]


def test_trees_grow_at_fixed_numbers_of_reports_whenever_one_asks() -> None:
    def looks(every: int) -> list[int]:
        searcher, given = ForestSearcher(SQUARE, seed=0), Given([])
        searcher.watch(given)
        for number, one in enumerate(bowl(100)):
            given.curves.append(one)
            if number % every == 0:
                searcher.ask(number)
        return given.looks

    often, seldom = looks(1), looks(9)
    assert set(seldom) < set(often)
    assert often == sorted(set(often))
    late = [look for look in often if look > 30]
    assert all(b >= 1.1 * a for a, b in itertools.pairwise(late))


# -- what it is told -----------------------------------------------------------------------------


def test_it_goes_where_the_objective_is_good_and_the_limit_holds() -> None:
    found = suggested(bowl(200), 100)
    assert share(found, lambda p: p["x"] <= 0.62 and p["y"] < 0.5) > 0.6
    free = [one._replace(checks=[]) for one in bowl(200)]
    assert share(suggested(free, 100), lambda p: p["x"] > 0.6 and p["y"] < 0.5) > 0.6


def test_a_limit_that_holds_early_alone_counts_where_it_holds() -> None:
    """Left of the middle the limit is broken late, right of it always."""
    made = [
        curve(
            p,
            [1.0 - step / 8 + p["y"] / 9 for step in range(1, 9)],
            [(step, (1.0 if p["x"] > 0.5 or step > 4 else -1.0,)) for step in (1, 2, 4, 8)],
            total_steps=8,
        )
        for p in somewhere(150)
    ]
    assert share(suggested(made, 60), lambda p: p["x"] <= 0.52) > 0.7


def test_one_of_several_limits_may_be_left_out() -> None:
    """The second is measured only where the first holds, as ACE2 does."""

    def checks(p: dict[str, Any]) -> list[tuple[int, tuple[float, ...]]]:
        return [(1, (p["x"] - 0.5, NAN if p["x"] > 0.5 else 0.5 - p["y"]))]

    made = [curve(p, [p["y"] - p["x"]], checks(p)) for p in somewhere(150)]
    assert share(suggested(made, 60), lambda p: p["x"] <= 0.52 and p["y"] >= 0.48) > 0.6


def test_a_check_that_failed_does_not_hold() -> None:
    made = [
        curve(p, [p["y"] - p["x"]], [(1, (NAN,) if p["x"] > 0.5 else (-0.3,))])
        for p in somewhere(150)
    ]
    assert share(suggested(made, 60), lambda p: p["x"] <= 0.52) > 0.7
    failed, violated = (curve({}, [1.0], [(1, excess)]) for excess in [(NAN, -1.0), (0.2, NAN)])
    valid, unchecked = curve({}, [9.0], [(1, (-1.0, 0.0))]), curve({}, [2.0])
    assert sorted([failed, unchecked, violated, valid], key=_how_good) == [
        valid,
        violated,
        failed,
        unchecked,
    ]


P = somewhere(40)
ODD: dict[str, list[Curve]] = {
    "nothing": [],
    "infinite losses": [curve(p, [INF, INF], [(2, (0.1,))]) for p in P],
    "some infinite": [curve(p, [INF if p["x"] > 0.5 else 1.0]) for p in P],
    "all alike": [curve(p, [1.0], [(1, (0.0,))]) for p in P],
    "no checks": [curve(p, [p["x"], p["y"]], total_steps=9, ended=False) for p in P],
    "no constraints": [curve(p, [p["x"], p["y"]], [(1, ()), (2, ())]) for p in P],
    "only failed checks": [curve(p, [p["x"]], [(1, (NAN, NAN))]) for p in P],
    "few checks": [curve(p, [p["x"]], [(1, (1.0,))] if i < 3 else []) for i, p in enumerate(P)],
    "steps of any length": [
        curve(p, range(1, 1 + len(p)), [(5 + i, (p["y"],))], None, (5 + i, 70 + i))
        for i, p in enumerate(P)
    ],
    "large steps": [
        curve(p, [p["x"], p["y"], 1.0], [(2**61, (p["x"],))], 2**62, (1, 2**61, 2**62)) for p in P
    ],
    "large and unknown": [curve(p, [p["x"], 0], [], None, (2**62 - 1, 2**62)) for p in P],
    "step 0": [curve(p, [p["x"]], [(0, (p["y"],))], None, (0,)) for p in P],
    "large numbers": [
        curve(p, [(p["x"] - 0.5) * 1.7e308], [(1, ((p["y"] - 0.5) * 1e308, INF))]) for p in P
    ],
    "small numbers": [curve(p, [p["x"] * 1e-320], [(1, (p["y"] * 1e-320,))]) for p in P],
    "many checks": [
        curve(p, range(1000), [(i, (p["x"], -1.0)) for i in range(1, 1001)], 1000) for p in P
    ],
    "one trial": [curve(P[0], [1.0])],
}


@pytest.mark.parametrize("what", ODD)
def test_whatever_trials_report_it_suggests_something(what: str) -> None:
    found = suggested(ODD[what], 30)
    assert len({tuple(params.values()) for params in found}) == 30


def test_trials_that_all_failed() -> None:
    searcher = ForestSearcher(SQUARE, seed=0)
    searcher.watch(Given([]))
    for number in range(40):
        searcher.ask(number)
        searcher.tell(number, Outcome(None, 1.0, failed=True))


def test_of_many_trials_the_best_are_never_dropped() -> None:
    """One of 4,000 is far better than all others, whose losses are alike."""
    many = [curve(p, [1.0], [(1, (-1.0,))]) for p in somewhere(4000)]
    best = {"x": 0.123, "y": 0.987}
    for place in (0, 1999, 3999):
        trials = [*many[:place], curve(best, [0.0], [(1, (-1.0,))]), *many[place:]]
        # a coordinate that is not moved is that of one of the best five
        found = suggested(trials * 2, 60)
        assert share(found, lambda p: p["x"] == best["x"] or p["y"] == best["y"]) > 0.1


# -- places --------------------------------------------------------------------------------------

reals = st.floats(allow_nan=False, allow_infinity=False, width=32)
dimensions: st.SearchStrategy[Dimension] = st.one_of(
    st.tuples(reals, reals).map(lambda b: acetune.uniform(min(b), max(b))),
    st.tuples(st.floats(1e-30, 1e30), st.floats(1e-30, 1e30)).map(
        lambda b: acetune.loguniform(min(b), max(b))
    ),
    st.tuples(st.integers(-(10**6), 10**6), st.integers(0, 10**6)).map(
        lambda b: acetune.randint(b[0], b[0] + b[1])
    ),
    st.tuples(st.integers(1, 10**6), st.integers(0, 10**6)).map(
        lambda b: acetune.lograndint(b[0], b[0] + b[1])
    ),
    st.lists(
        st.sampled_from([None, True, 1, 1.0, "a", "b", 2]), min_size=1, max_size=5, unique_by=repr
    ).map(acetune.choice),
)


@given(dimension=dimensions, where=st.floats(0.0, 1.0))
@examples(300)
def test_a_configuration_lies_at_its_place(dimension: Dimension, where: float) -> None:
    space = Space({"a": dimension, "fixed": 1})
    params = space.at([where])
    assert dimension.contains(params["a"])
    (place,) = space.place({**params, "fixed": 1})
    assert 0.0 <= place <= 1.0
    (again,) = space.at([place]).values()
    if isinstance(params["a"], float) and not isinstance(again, str | None):
        width = getattr(dimension, "high", 0.0) - getattr(dimension, "low", 0.0)
        assert again == pytest.approx(params["a"], rel=1e-9, abs=1e-9 * width)
    else:
        assert (again, type(again)) == (params["a"], type(params["a"]))


def test_the_ends_of_dimensions() -> None:
    space = Space(
        {
            "whole bounds": acetune.uniform(0, 1),
            "widest": acetune.uniform(-1.7e308, 1.7e308),
            "steps": acetune.lograndint(1, 2**62),
            "one": acetune.randint(3, 3),
        }
    )
    low, high = space.at([0.0] * 4), space.at([1.0] * 4)
    assert list(low.values()) == [0.0, -1.7e308, 1, 3]
    assert list(high.values()) == [1.0, 1.7e308, 2**62, 3]
    assert [type(value) for value in high.values()] == [float, float, int, int]
    assert space.place({**low, "widest": 0.0})[1] == 0.5
    assert suggested([curve(space.at([i / 20] * 4), [i]) for i in range(20)], space=space)


def test_each_option_and_each_whole_number_is_as_likely() -> None:
    space = Space({"n": acetune.randint(1, 4), "kind": acetune.choice(["a", "b", "c", "d"])})
    found = [space.at([(i + 0.5) / 400] * 2) for i in range(400)]
    for name in space.names:
        values = [params[name] for params in found]
        assert {values.count(value) for value in set(values)} == {100}


def test_it_learns_over_every_kind_of_dimension() -> None:
    def loss(p: dict[str, Any]) -> float:
        return abs(p["n"] - 6) / 8 + abs(math.log10(p["rate"]) + 2) / 4 + (p["kind"] != 2)

    made = [curve(p, [loss(p)]) for p in somewhere(200, SPACE)]
    found = suggested(made, 60, SPACE)
    random_ones = somewhere(300, SPACE)
    mean = [sum(map(loss, some)) / len(some) for some in (found, random_ones)]
    assert mean[0] < 0.6 * mean[1]


# -- points --------------------------------------------------------------------------------------


def test_points_come_first_also_once_it_has_learned() -> None:
    points = [{"x": 0.5, "kind": True}, {}, {"n": 3}, SPACE.at([0.5] * 5)]
    searcher = ForestSearcher(SPACE, points, seed=0)
    searcher.watch(Given([curve(p, [p["x"]]) for p in somewhere(50, SPACE)]))
    first, _, third, fourth, fifth = (searcher.ask(number) for number in range(1, 6))
    assert (first["x"], first["kind"]) == (0.5, True)
    assert third["n"] == 3 and fourth == points[3] and fifth != points[3]
    assert points[0] == {"x": 0.5, "kind": True}  # they are the caller's


# -- what it is good for -------------------------------------------------------------------------


def best_found(propose: Callable[[int], dict[str, Any]], given: Given, trials: int = 60) -> float:
    """The better the nearer to (0.9, 0.3), where x + y must not exceed 1."""
    best = INF
    for number in range(trials):
        p = propose(number)
        loss, beyond = (p["x"] - 0.9) ** 2 + (p["y"] - 0.3) ** 2, p["x"] + p["y"] - 1.0
        best = min(best, loss if beyond <= 0 else INF)
        given.curves.append(curve(p, [loss + 1.0, loss], [(2, (beyond,))], total_steps=2))
    return best


def test_it_finds_the_optimum_within_a_limit_better_than_random_search() -> None:
    forest, chance = [], []
    for seed in range(10):
        given, searcher = Given([]), ForestSearcher(SQUARE, seed=seed)
        searcher.watch(given)
        forest.append(best_found(searcher.ask, given) - 0.02)
        drawn = np.random.default_rng(seed).random((60, 2)).tolist()
        chance.append(best_found(lambda n, drawn=drawn: SQUARE.at(drawn[n]), Given([])) - 0.02)  # type: ignore[misc]
    assert np.median(forest) < 0.5 * np.median(chance)
    assert sum(f < c for f, c in zip(forest, chance, strict=True)) >= 7


# -- what earlier studies found ------------------------------------------------------------------


def test_with_an_earlier_study_a_few_trials_find_what_takes_many_without() -> None:
    """The earlier one has 60 random trials."""
    earlier = Given([])
    drawn = np.random.default_rng(7).random((60, 2)).tolist()
    best_found(lambda n: SQUARE.at(drawn[n]), earlier)
    found: dict[str, list[float]] = {"warm": [], "cold": []}
    for seed in range(12):
        for kind, losses in found.items():
            given, searcher = Given([]), ForestSearcher(SQUARE, seed=seed)
            searcher.watch(given)
            if kind == "warm":
                searcher.learn(earlier.curves)
            losses.append(best_found(searcher.ask, given, trials=10) - 0.02)
    assert np.median(found["warm"]) < 0.25 * np.median(found["cold"])
    assert sum(w < c for w, c in zip(*found.values(), strict=True)) >= 10


def test_earlier_trials_do_not_crowd_out_its_own() -> None:
    """What 3,000 earlier trials say is bad turns out to be good."""
    earlier = [curve(p, [p["x"]]) for p in somewhere(3000)]
    searcher = ForestSearcher(SQUARE, seed=0)
    searcher.learn(earlier)
    assert len(searcher._earlier) == 750
    assert min(earlier, key=_how_good) in searcher._earlier
    searcher.watch(Given([curve(p, [-p["x"]]) for p in somewhere(300)]))
    found = [searcher.ask(number) for number in range(60)]
    assert share(found, lambda p: p["x"] > 0.5) > 0.7


def test_it_grows_anew_at_fixed_numbers_of_its_own_reports() -> None:
    searcher, given = ForestSearcher(SQUARE, seed=0), Given([])
    searcher.learn(bowl(600))  # 2,400 reports, a hundredth of which is 24
    searcher.watch(given)
    for number, one in enumerate(bowl(100)):
        given.curves.append(one)
        searcher.ask(number)
    assert given.looks[:8] == [1, 25, 49, 73, 97, 121, 145, 169]
    assert all(b >= 1.1 * a for a, b in itertools.pairwise(given.looks[8:]))


# -- dimensions that some configurations lack ----------------------------------------------------

NESTED = Space(
    {
        "kind": acetune.choice(["line", "net", "tree"]),
        "layers": acetune.randint(1, 3),  # of nets
        "second": acetune.uniform(0.0, 1.0),  # where there are two layers at least
        "depth": acetune.randint(1, 9),  # of trees
        "rate": acetune.loguniform(0.001, 1.0),
    }
)


def with_what_it_has(p: dict[str, Any]) -> dict[str, Any]:
    lacks = {
        "line": {"layers", "second", "depth"},
        "net": {"depth"} | ({"second"} if p["layers"] < 2 else set()),
        "tree": {"layers", "second"},
    }[p["kind"]]
    return {name: value for name, value in p.items() if name not in lacks}


def nested_loss(p: dict[str, Any]) -> float:
    """Nets with two layers, the second of them at 0.7, are best; else trees that are deep."""
    p = with_what_it_has(p)
    if "second" in p:
        return abs(p["second"] - 0.7) + (p["layers"] > 2)
    return 1.0 - p.get("depth", 0) / 20


def test_a_dimension_may_be_missing() -> None:
    made = [curve(with_what_it_has(p), [nested_loss(p)]) for p in somewhere(200, NESTED)]
    found = suggested(made, 60, NESTED)  # a value of each dimension, needed or not
    random_ones = somewhere(300, NESTED)
    assert share(found, lambda p: p["kind"] == "net" and p["layers"] == 2) > 0.6
    near = share(found, lambda p: nested_loss(p) < 0.3)
    assert near > 0.5 > 3 * share(random_ones, lambda p: nested_loss(p) < 0.3)


def test_which_dimensions_a_configuration_has_is_learned() -> None:
    places = np.array([NESTED.place(with_what_it_has(p)) for p in somewhere(150, NESTED)])
    presence = _Presence(places, np.random.default_rng(0))
    new = somewhere(400, NESTED)
    found = presence.without_missing(np.array([NESTED.place(p) for p in new]))
    expected = np.array([NESTED.place(with_what_it_has(p)) for p in new])
    assert ((found == MISSING) == (expected == MISSING)).mean() > 0.97
    assert (found[found != MISSING] >= 0).all()


@pytest.mark.parametrize("lacks", [{"x"}, {"y"}, {"x", "y"}])
def test_a_dimension_that_all_lack_is_drawn(lacks: set[str]) -> None:
    made = [
        curve({name: v for name, v in p.items() if name not in lacks}, [i])
        for i, p in enumerate(somewhere(40))
    ]
    found = suggested(made, 30)
    assert len({tuple(params.values()) for params in found}) == 30


# -- where it can be used ------------------------------------------------------------------------


def test_a_replay_with_it_can_be_repeated() -> None:
    table = synthetic_table(150, 3, max_steps=20, difficulty=0.7, noise=0.01).table
    one, same = (
        simulate(table, "ace2", searcher="forest", seed=1, workers=3, budget_s=60.0)
        for _ in range(2)
    )
    assert one == same and one.trials > 20
    assert simulate(table, "ace2", searcher="forest", seed=2, workers=3, budget_s=60.0) != one


def test_a_study_with_several_workers_and_limits_on_the_configuration(study: Path) -> None:
    def fails_at_times(trial: Trial) -> None:
        if trial.number % 5 == 0:
            raise MemoryError("too large")
        trial.report(trial.params["x"], model=trial.params["x"])

    result = tune(
        fails_at_times,
        study,
        searcher="forest",
        seed=0,
        workers=2,
        max_trials=40,
        space={"x": acetune.uniform(0.0, 1.0), "y": acetune.choice(["a", None])},
        constraints=[
            Constraint("g", lower=0.3, check=lambda model: model),
            Constraint("h", upper=0.9, on="config", check=lambda params: params["x"]),
        ],
    )
    assert result.best is not None and 0.3 <= result.best.params["x"] <= 0.4
