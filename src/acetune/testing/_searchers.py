"""What every searcher must do, however it searches."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from acetune.core.errors import SpaceError
from acetune.core.outcome import Curve, Outcome
from acetune.searchers.searcher import Searcher, learns_from_earlier, searched_part
from acetune.searchers.space import Space, choice, lograndint, loguniform, randint, uniform
from acetune.testing._require import require, require_all

SPACE = {
    "x": uniform(0.0, 1.0),
    "rate": loguniform(1e-4, 1.0),
    "n": randint(1, 8),
    "m": lograndint(1, 100),
    "kind": choice(["a", 2, None, True]),
    "fixed": 5,
}


def check_searcher(
    make: Callable[[dict[str, Any], int], Searcher],
    *,
    space: Mapping[str, Any] | None = None,
    trials: int = 30,
) -> None:
    """Raise AssertionError unless a searcher keeps to the protocol.

    Checked is that suggestions lie in the space, that a seed repeats them, that workers may ask
    before others have answered, that failed and rejected trials do no harm, that another
    configuration may have been run in place of the suggested one, and that a resumed study can
    tell it of earlier trials; if it learns from earlier studies, that it does so without harm.

    Parameters
    ----------
    make:
        Makes a new searcher for a space, as ``tune`` takes it, and a seed.
    space:
        The space; one with all kinds of dimensions by default.
    trials:
        How many it is asked for in a row; fewer for a slow one.
    """
    case = _Case(make, SPACE if space is None else space, trials)
    require(isinstance(case.made(0), Searcher), "make() must return an object of acetune.Searcher")
    require_all(_CHECKS, case, type(case.made(0)).__name__)


class _Case:
    """A way to make a searcher, and a space for it."""

    def __init__(
        self,
        make: Callable[[dict[str, Any], int], Searcher],
        space: Mapping[str, Any],
        trials: int,
    ) -> None:
        self.make, self.trials = make, trials
        self._given, self.space = dict(space), Space(space)

    def made(self, seed: int) -> Searcher:
        return self.make(dict(self._given), seed)

    def ask(self, searcher: Searcher, trial: int) -> dict[str, Any]:
        """A suggestion, which must lie in the space."""
        params = searcher.ask(trial)
        require(
            isinstance(params, dict) and set(params) == set(self.space.names),
            f"ask() must give a dict with {self.space.names}, got {params!r}",
        )
        try:
            searched_part(self.space, params)
        except SpaceError as error:
            raise AssertionError(f"ask() gave {params!r}: {error}") from None
        return params

    def play(
        self,
        searcher: Searcher,
        trials: Iterable[int],
        outcome: Callable[[Mapping[str, Any]], Outcome],
    ) -> list[dict[str, Any]]:
        """What it suggests, each answered before the next."""
        found = []
        for trial in trials:
            found.append(self.ask(searcher, trial))
            searcher.tell(trial, outcome(found[-1]))
        return found

    def outcome(self, params: Mapping[str, Any]) -> Outcome:
        """The better the lower every dimension is; half of the first one is not allowed."""
        places = self.space.place(params)
        return Outcome(sum(places) / len(places), max(0.0, 0.5 - places[0]))

    def somewhere(self, rng: random.Random) -> dict[str, Any]:
        """A configuration at random, with a value that is not searched."""
        return {"not searched": 1, **self.space.at([rng.random() for _ in self.space.names])}


def _suggestions_lie_in_the_space(case: _Case) -> None:
    case.play(case.made(0), range(1, case.trials + 1), case.outcome)


def _a_seed_repeats_the_suggestions(case: _Case) -> None:
    numbers = range(1, case.trials + 1)
    first, again = (case.play(case.made(3), numbers, case.outcome) for _ in range(2))
    for trial, one, other in zip(numbers, first, again, strict=True):
        require(one == other, f"with the same seed trial {trial} is {one!r}, and then {other!r}")


def _workers_may_ask_before_others_have_answered(case: _Case) -> None:
    searcher = case.made(0)
    for batch in range(max(1, case.trials // 10)):
        asked = {10 * batch + n: case.ask(searcher, 10 * batch + n) for n in range(1, 6)}
        for n in (3, 1, 5, 2, 4):
            searcher.tell(10 * batch + n, case.outcome(asked[10 * batch + n]))


def _trials_without_a_value_do_no_harm(case: _Case) -> None:
    endings = (Outcome(None, 0.3), Outcome(None, 1.0, failed=True))
    for ending in endings:  # nothing but such trials
        case.play(case.made(0), range(1, case.trials + 1), lambda _, ending=ending: ending)  # type: ignore[misc]
    rng = random.Random(0)
    mixed = case.made(0)
    for trial in range(1, case.trials + 1):
        params = case.ask(mixed, trial)
        mixed.tell(trial, rng.choice((case.outcome(params), *endings)))


def _another_configuration_may_have_been_run(case: _Case) -> None:
    """As in a replay, which answers with the nearest recorded one."""
    rng = random.Random(0)
    searcher = case.made(0)
    for trial in range(1, case.trials + 1):
        case.ask(searcher, trial)
        run = case.somewhere(rng)
        searcher.tell(trial, case.outcome(run), run)


def _a_resumed_study_tells_of_earlier_trials(case: _Case) -> None:
    rng = random.Random(0)
    searcher = case.made(0)
    under_way = case.somewhere(rng)
    searcher.add(1, under_way, None)  # will be trained again
    searcher.add(2, case.somewhere(rng), Outcome(None, 0.5))
    searcher.add(3, case.somewhere(rng), Outcome(None, 1.0, failed=True))
    for trial in range(4, 10):
        run = case.somewhere(rng)
        searcher.add(trial, run, case.outcome(run))
    first = case.ask(searcher, 10)
    searcher.tell(1, case.outcome(under_way))
    searcher.tell(10, case.outcome(first))
    case.play(searcher, range(11, 14), case.outcome)


def _earlier_studies_do_no_harm(case: _Case) -> None:
    """Of a searcher that takes them (``tune(learn_from=...)``)."""
    searcher, rng = case.made(0), random.Random(0)
    if not learns_from_earlier(searcher):
        return
    earlier = []
    for _ in range(20):
        ran = searched_part(case.space, case.somewhere(rng))
        loss, violation, _ = case.outcome(ran)
        steps, losses = array("q", [1, 2]), array("d", [2.0, loss or 0.0])
        earlier.append(Curve(ran, 2, steps, losses, [(2, (violation,))], ended=True))
    searcher.learn(earlier)
    case.play(searcher, range(1, case.trials + 1), case.outcome)


_CHECKS: tuple[Callable[[_Case], None], ...] = (
    _suggestions_lie_in_the_space,
    _a_seed_repeats_the_suggestions,
    _workers_may_ask_before_others_have_answered,
    _trials_without_a_value_do_no_harm,
    _another_configuration_may_have_been_run,
    _a_resumed_study_tells_of_earlier_trials,
    _earlier_studies_do_no_harm,
)
