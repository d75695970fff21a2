"""Adaptive and what it learns against plain second implementations; and what holds in any study."""

from __future__ import annotations

import contextlib
import math
import random
import tempfile
from contextlib import closing
from dataclasses import asdict
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.core.goals import FailedCheck
from acetune.core.learning import Added, Learning, Trend
from acetune.policies import Adaptive, Policy
from core.reference import Limit
from core.test_against_reference import Checked, Pair, Report, Retry, Study, studies
from properties import examples_or_more

from .plain import AdaptiveRule, CloseCallError, Known, KnownCheck, Lasted, PlainTrend, Seen
from .test_ace2 import often_retried
from .test_ace2_properties import Live, Played, Scripts
from .test_ace2_properties import studies as scripts

NAN = math.nan

# -- what is learned -----------------------------------------------------------------------------

steps = st.sampled_from([1, 2, 3, 4, 7, 8, 16, 64, 1000, 2**62])
losses = st.sampled_from([-1.0, 0.0, 0.5, 0.75, 1.0, math.inf]) | st.floats(-2, 2)
excesses = st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.5, 700.0, NAN]) | st.floats(-2, 2)


@st.composite
def told(draw: st.DrawFn) -> list[tuple[int, int, float, float, bool]]:
    """Trial, step, loss, excess and whether the trial goes back before its last check."""
    events = st.tuples(st.integers(0, 4), steps, losses, excesses, st.booleans())
    return draw(st.lists(events, max_size=60))


@examples_or_more(100)
@given(told())
def test_sums_are_those_of_the_plain_lists(
    events: list[tuple[int, int, float, float, bool]],
) -> None:
    learning, seen = Learning(), Seen()
    own: dict[int, list[tuple[int, float]]] = {}
    for trial, step, loss, excess, goes_back in events:
        checks = own.setdefault(trial, [])
        if goes_back and checks:
            learning.go_back(checks[-1], checks[-2] if len(checks) > 1 else None)
            checks.pop()
            continue
        before = checks[-1] if checks else None
        learning.add_check(step, loss, excess, before)
        if not math.isnan(excess):
            seen.checks.append(KnownCheck(step, loss, excess, before))
            checks.append((step, excess))
    seen.last = [checks[-1] for checks in own.values() if checks]
    assert learning.agreement == pytest.approx(seen.agreement())
    try:
        expected = seen.trend()
    except CloseCallError:
        return
    found = learning.trend(2.0, 0.5)
    assert found[5:] == (2.0, 0.5)
    assert found.pairs == expected.pairs
    # a spread is the root of a difference of squares that may be a million
    assert found.slopes == pytest.approx(expected.slopes, rel=1e-4, abs=1e-4)
    assert found[2:5] == pytest.approx(expected[2:], rel=1e-4, abs=1e-4)


some = st.floats(-2, 2)


@examples_or_more(60)
@given(
    st.lists(st.tuples(some, some), max_size=60),
    st.lists(st.tuples(steps, some, some), min_size=1, max_size=6, unique_by=lambda c: c[0]),
    some,
)
def test_what_was_learned_can_be_left_out_again(
    others: list[tuple[float, float]], own: list[tuple[int, float, float]], loss: float
) -> None:
    learning, expected = Learning(), Learning()
    for both in (learning, expected):
        for other, excess in others:
            both.add_check(2, other, excess, None)
            both.add_check(8, other, excess / 2, (2, excess))
            both.add_loss(4, excess, other)
    added: list[Added] = []
    before = None
    for step, value, excess in sorted(own):
        learning.add_check(step, value, excess, before)
        added.append((step, value, excess, before))
        before = step, excess
    learning.add_loss(4, loss, 0.5)
    found = learning.without(added, [(4, loss, 0.5)])
    left, never = found.trend(1.0, 1.0), expected.trend(1.0, 1.0)
    assert left.pairs == never.pairs
    assert left.slopes == pytest.approx(never.slopes, rel=1e-4, abs=1e-4)
    assert left[2:] == pytest.approx(never[2:], rel=1e-4, abs=1e-4)
    assert found.agreement == expected.agreement
    assert found.order_kept(1, 0.7, 4.0) == expected.order_kept(1, 0.7, 4.0)


@examples_or_more(60)
@given(st.lists(st.tuples(steps, losses, losses), max_size=130))
def test_the_share_of_pairs_that_kept_their_order(
    events: list[tuple[int, float, float]],
) -> None:
    learning, seen = Learning(), Seen()
    for step, then, later in events:
        octave = 1 << (step.bit_length() - 1)
        learning.add_loss(4 * octave, later, then)
        learning.add_loss(octave, then, None)  # says nothing
        seen.lasted.append(Lasted(octave, then, later))
    for step in (0, 1, 2, 3, 4, 6, 9, 1023, 2**62 + 5):
        assert learning.order_kept(step, 0.7, 4.0) == pytest.approx(seen.order_kept(step))


slopes_along = st.lists(st.floats(-2, 2), max_size=4)


@given(steps, steps, excesses, slopes_along, st.floats(0, 2), excesses, st.floats(0.01, 2))
def test_chances(
    at: int,
    checked_at: int,
    excess: float,
    slopes: list[float],
    spread: float,
    start: float,
    start_spread: float,
) -> None:
    start = 0.0 if math.isnan(start) else start
    trend = Trend(3, tuple(slopes), spread, start, start_spread)
    plain = Known(PlainTrend(3, slopes, spread, start, start_spread), Fraction(0), Fraction(0))
    found = trend.chance(at, checked_at, excess)
    assert found == pytest.approx(plain.chance(at, checked_at, excess), abs=1e-6)
    assert 0 <= found <= 1
    assert trend.slope(at) == plain.slope(at)
    best, where = trend.best_chance(at, 2 * at + 7, checked_at, excess)
    assert best == trend.chance(where, checked_at, excess)
    assert best == pytest.approx(plain.best_chance(at, 2 * at + 7, checked_at, excess), abs=1e-6)


# -- whole studies -------------------------------------------------------------------------------

rules = st.builds(
    AdaptiveRule,
    invalid_truncation=st.sampled_from([0.4, 0.4, 0.0, 0.1, 1.0]),
    spacing=st.sampled_from([1.5, 1.5, 1.0, 0.0, 0.5, 3.0]),
    hope=st.sampled_from([0.05, 0.05, 0.0, 0.3, 1.0]),
)
lasting = st.builds(
    AdaptiveRule,
    invalid_truncation=st.just(0.0),
    spacing=st.sampled_from([1.0, 0.5, 0.0]),
    hope=st.sampled_from([0.0, 0.1]),
)


@examples_or_more(120)
@given(studies(rules, lengths=(6, 10, 20, None, 3, 1)))
def test_against_the_plain_rule(study: Study) -> None:
    with contextlib.suppress(CloseCallError):
        Pair(study).play()


@st.composite
def trending(draw: st.DrawFn) -> Study:
    """Longer trials whose objective improves, so that they are checked again and again."""
    gs = draw(st.lists(st.floats(-0.5, 1.5), min_size=4, max_size=12))
    drift = draw(st.sampled_from([-0.25, -0.05, 0.0, 0.05, 0.25]))
    events: list[Report | Retry] = []
    for at, slot in enumerate(draw(st.lists(st.integers(0, 2), min_size=20, max_size=150))):
        g = gs[at % len(gs)] + drift * at / 10
        measured = FailedCheck("raised") if at % 17 == 16 else g
        cost = draw(st.sampled_from([0.25, 1.0, 3.0]))
        check = Checked((measured, 0.0, 0.0), cost, None, 0.0, False)
        value = -float(at // 8) + draw(st.floats(-3, 3))
        events.append(Report(slot, 0, value, True, 1.0, check))
        if draw(st.integers(0, 24)) == 0:
            events.append(Retry(slot, draw(st.integers(0, 12))))
    return Study(
        "min",
        (Limit("g0", upper=0.5),),
        draw(rules | lasting),
        draw(st.sampled_from([1, 3])),
        tuple(draw(st.lists(st.sampled_from([20, 40, 70]), min_size=1, max_size=2))),
        tuple(events),
    )


@examples_or_more(100)
@given(trending())
def test_trends_against_the_plain_rule(study: Study) -> None:
    with contextlib.suppress(CloseCallError):
        Pair(study).play()


@st.composite
def outrun(draw: st.DrawFn) -> Study:
    """Many short trials, most of them checked and valid: some cannot catch up with the answer."""
    turns = draw(st.lists(st.integers(0, 2), min_size=60, max_size=160))
    gains = draw(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, -0.5]), min_size=3, max_size=9))
    starts = draw(st.lists(st.integers(0, 40), min_size=3, max_size=9))
    check = Checked((0.0, 0.0, 0.0), 0.25, None, 0.0, False)
    events: list[Report | Retry] = []
    for at, slot in enumerate(turns):
        value = starts[at // 9 % len(starts)] / 8 - gains[at % len(gains)] * (at % 9)
        events.append(Report(slot, 0, value, True, 1.0, check))
        if draw(st.integers(0, 40)) == 0:
            events.append(Retry(slot, draw(st.integers(0, 4))))
    lengths = draw(st.lists(st.sampled_from([4, 5, 8, 17]), min_size=1, max_size=2))
    limits = draw(st.sampled_from([(), (Limit("g0", upper=0.5),)]))
    return Study("min", limits, draw(rules | lasting), 1, tuple(lengths), tuple(events))


@examples_or_more(100)
@given(outrun())
def test_who_is_outrun_against_the_plain_rule(study: Study) -> None:
    with contextlib.suppress(CloseCallError):
        Pair(study).play()


@examples_or_more(60)
@given(studies(lasting, lengths=(20, 40, None)).map(often_retried))
def test_new_attempts_against_the_plain_rule(study: Study) -> None:
    with contextlib.suppress(CloseCallError):
        Pair(study).play()


policies = st.builds(
    Adaptive,
    invalid_truncation=st.sampled_from([0.4, 0.4, 0.0]),
    spacing=st.sampled_from([1.5, 1.5, 0.0, 0.5]),
    hope=st.sampled_from([0.05, 0.0, 0.3]),
)


@examples_or_more(40)
@given(scripts(), policies, st.integers(0, 99))
def test_names_do_not_matter(study: Scripts, policy: Policy, seed: int) -> None:
    names = [f"{random.Random(seed + index).random()} {index}" for index in range(8)]
    assert Played(study, policy, rename=names.__getitem__).answers == Played(study, policy).answers


@examples_or_more(40)
@given(scripts(), policies, st.integers(-20, 20), st.integers(-20, 20))
def test_units_do_not_matter(study: Scripts, policy: Policy, power: int, g_power: int) -> None:
    """Of the objective, and of the constraint with its limit."""
    scaled = Played(study, policy, unit=2.0**power, g_unit=2.0**g_power)
    assert scaled.answers == Played(study, policy).answers


@examples_or_more(40)
@given(scripts(most=6), policies, st.integers(0, 60))
def test_an_interrupted_study_goes_on_as_if_it_had_not_been(
    study: Scripts, policy: Policy, reports: int
) -> None:
    """It learns from the file what it had learned; worker and driver know the same."""
    with tempfile.TemporaryDirectory() as folder:
        unbroken = Live(study, policy, Path(folder) / "whole.db")
        expected = unbroken.play(study.turns())
        interrupted = Live(study, policy, Path(folder) / "broken.db")
        turns = study.turns()
        with closing(unbroken.store):
            found = interrupted.play(turns, until=reports)
            # who has not reported yet begins anew, and is told what is known by then
            while any(worker.last_step == 0 for worker, _ in interrupted.workers.values()):
                found += interrupted.play(turns, until=1)
            interrupted.interrupt()
            found += interrupted.play(turns)
            interrupted.store.close()
    assert found == expected
    one, two = (live.coordinator.stopper.history for live in (unbroken, interrupted))
    assert (one.gate, one.strata, one.checks) == (two.gate, two.strata, two.checks)
    assert one.trend == two.trend
    assert one.learning.agreement == two.learning.agreement
    assert asdict(one.costs) == asdict(two.costs)
