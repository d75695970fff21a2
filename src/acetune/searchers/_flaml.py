"""FLAML's BlendSearch and CFO, by ask and tell.

FLAML 2.7 as it comes would mislead or break a constrained search in many ways. Each of these is
shown beside its remedy in ``tests/searchers/test_flaml.py``, which fails when FLAML fixes it:

- The local search ignores the constraint unless metric, mode *and* space are given at once.
- A constraint value of 0.0, None or NaN counts as satisfied; in an intermediate result, any value.
  So it is told ``1 + violation``, with the limit 1, and final results only.
- Once one trial is feasible the penalty falls from 1e10 to 1 a violation: where losses differ by
  more than violations do, the search walks off to where nothing qualifies. The penalty is kept.
- A low-cost starting point where nothing qualifies is never left. The region around it is widened.
- The global search (TPE) is told results under parameters that were never run. It is told by us.
- With a time budget the suggestions depend on the clock. Every trial costs the same here.
- Options of mixed types come back as strings. FLAML sees the places of options only.
- Dimensions with a single value, names with a slash and results without a value raise.
- Sometimes there is no suggestion. It is asked again, and then replaced by a random one.
"""

from __future__ import annotations

import logging
import math
import secrets
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeGuard

from acetune.core.errors import GoalError
from acetune.core.import_on_use import import_extra
from acetune.core.outcome import Outcome
from acetune.searchers.dimensions import value_at
from acetune.searchers.optuna_samplers import OptunaSearcher
from acetune.searchers.searcher import Searcher, drop_tried, searched_part
from acetune.searchers.space import Choice, Dimension, Float, Integer, Space

Config: TypeAlias = dict[str, Any]  # a configuration in FLAML's terms

_NOTHING_TO_SEARCH = "unused"


class FlamlSpace:
    """What FLAML can be trusted with: dimensions p0, p1, ... of numbers.

    The names, because it takes those with a slash apart; the place of an option instead of the
    option, because it draws options through NumPy, which makes strings of mixed ones; and only
    dimensions with more than one value, because it divides by their range.

    Parameters
    ----------
    space:
        The space in our terms.
    tune:
        The module ``flaml.tune``.
    """

    def __init__(self, space: Space, tune: Any) -> None:
        self._space, self._dimensions = space, space.dimensions
        self._codes: dict[str, str] = {}  # our name -> FLAML's
        self._options: dict[str, list[Any]] = {}
        self.domains: dict[str, Any] = {}  # FLAML's space
        self.size = 1.0  # how many configurations there are
        for name, dimension in space.dimensions.items():
            if isinstance(dimension, Choice):
                self._options[name] = _options(dimension)
            size = dimension.size
            self.size *= size
            if size > 1:
                self._codes[name] = f"p{len(self._codes)}"
                self.domains[self._codes[name]] = _domain(dimension, tune)
        if not self.domains:
            self.domains[_NOTHING_TO_SEARCH] = tune.uniform(0.0, 1.0)

    def encode(self, params: Mapping[str, Any]) -> Config:
        """A configuration, or part of one, for FLAML."""
        config: Config = {}
        for name, code in self._codes.items():
            if name in params:
                value = params[name]
                if name in self._options:
                    same = [type(o) is type(value) and o == value for o in self._options[name]]
                    value = same.index(True)  # True is not 1 here
                elif _by_place(dimension := self._dimensions[name]):
                    value = round((value - dimension.low) / dimension.width)
                config[code] = value
        if _NOTHING_TO_SEARCH in self.domains:
            config[_NOTHING_TO_SEARCH] = 0.5
        return config

    def decode(self, config: Config) -> dict[str, Any]:
        """A configuration from FLAML's; rounding may have taken it out of bounds."""
        params: dict[str, Any] = {}
        for name, dimension in self._dimensions.items():
            value = config[self._codes[name]] if name in self._codes else None
            if isinstance(dimension, Choice):
                params[name] = self._options[name][0 if value is None else int(value)]
            elif value is None:
                params[name] = dimension.snap(dimension.low)
            elif _by_place(dimension):
                params[name] = dimension.snap(dimension.low + int(value) * dimension.width)
            else:
                kind = int if isinstance(dimension, Integer) else float
                params[name] = dimension.snap(kind(value))
        return self._space.active(params)

    def encode_whole(self, params: Mapping[str, Any]) -> Config:
        """A whole one: FLAML knows no conditions, and gets the middle of what it lacks."""
        missing = [name for name in self._codes if name not in params]
        middle = {name: value_at(self._dimensions[name], 0.5) for name in missing}
        return self.encode({**params, **middle})


def _options(dimension: Choice) -> list[Any]:
    """The options; numbers in order, as FLAML's local search moves between neighbours then."""
    if _ordered(dimension):
        return sorted(dimension.options, key=float)
    return list(dimension.options)


def _ordered(dimension: Choice) -> bool:
    return all(isinstance(option, (int, float)) for option in dimension.options)


def _by_place(dimension: Dimension) -> TypeGuard[Float | Integer]:
    """Whether FLAML gets the number of a step; in logarithms steps are not even."""
    if isinstance(dimension, Choice) or dimension.log:
        return False
    return dimension.step is not None and (isinstance(dimension, Float) or dimension.step != 1)


def _domain(dimension: Dimension, tune: Any) -> Any:
    if isinstance(dimension, Choice):
        return tune.choice(range(len(dimension.options)), order=_ordered(dimension))
    if _by_place(dimension):
        return tune.randint(0, int(dimension.size))
    if isinstance(dimension, Float):
        return (tune.loguniform if dimension.log else tune.uniform)(dimension.low, dimension.high)
    # FLAML leaves the upper end out
    ends = int(dimension.low), int(dimension.high) + 1
    return (tune.lograndint if dimension.log else tune.randint)(*ends)


_LOSS, _CONSTRAINT = "loss", "one_plus_violation"
_MAX_ATTEMPTS = 100  # as in FLAML's own loop
_WIDE = 64  # a range of whole numbers that TPE may take for a continuous one


class FlamlSearcher(Searcher):
    """BlendSearch or CFO.

    CFO is a randomised local search that starts over when it has converged; it begins from the
    first feasible trial. BlendSearch runs several such searches beside a global one, Optuna's TPE.
    Both know the constraint: only feasible trials start a local search, and an infeasible trial is
    never better than a feasible one; TPE is told the violation too.

    A trial that failed, or was turned down before training, counts as tried and not better. Costs
    are not told: which local search goes on is decided by progress per trial, so that the
    suggestions depend on the answers and the seed alone, and not on the clock.

    Parameters
    ----------
    space:
        What to search.
    method:
        ``"blendsearch"`` or ``"cfo"``.
    points:
        Configurations to try first; open dimensions are sampled. CFO begins from the best of those
        that have ended.
    low_cost:
        Values that make training cheap, of some dimensions. The search begins there and leaves
        their neighbourhood step by step.
    seed:
        Makes the suggestions repeatable, given the same answers in the same order.

    References
    ----------
    Wu, Wang, Huang: Frugal Optimization for Cost-related Hyperparameters. AAAI 2021.
    Wang, Wu, Huang, Saied: Economical Hyperparameter Optimization With Blended Search Strategy.
    ICLR 2021.

    >>> from acetune.searchers.space import lograndint, uniform
    >>> space = Space({"rounds": lograndint(1, 100), "rate": uniform(0.0, 1.0)})
    >>> FlamlSearcher(space, "cfo", low_cost={"rounds": 1}, seed=0).ask(1)["rounds"]
    1
    """

    def __init__(
        self,
        space: Space,
        method: Literal["blendsearch", "cfo"] = "blendsearch",
        points: Sequence[Mapping[str, Any]] = (),
        low_cost: Mapping[str, Any] | None = None,
        seed: int | None = None,
    ) -> None:
        if method not in ("blendsearch", "cfo"):
            raise GoalError(f"method must be 'blendsearch' or 'cfo', got {method!r}")
        flaml = _flaml()
        seed = (secrets.randbits(31) if seed is None else seed) % 2**31  # FLAML adds to it
        self._space, self._coded = space, FlamlSpace(space, flaml.tune)
        self._points = [self._coded.encode(point) for point in points]
        self._global: _GlobalSearch | None = None
        if method == "blendsearch":
            sampler = OptunaSearcher(_smoothed(space), "tpe", seed=seed)
            self._global = _GlobalSearch(sampler, self._coded, space)
        algorithm = flaml.BlendSearch if method == "blendsearch" else flaml.CFO
        self._search = algorithm(
            metric=_LOSS,
            mode="min",
            space=self._coded.domains,
            low_cost_partial_config=self._coded.encode(space.require_point(low_cost or {})),
            points_to_evaluate=self._points,  # takes from this very list
            global_search_alg=self._global,
            metric_constraints=[(_CONSTRAINT, "<=", 1.0)],
            cost_attr=None,
            seed=seed,
        )
        self._asked: dict[int, Config] = {}
        self._earlier: list[tuple[int, Config, Outcome]] = []

    def ask(self, trial: int) -> dict[str, Any]:
        """What FLAML suggests, or a random configuration if it has nothing new to suggest."""
        self._learn_earlier()
        config = self._suggested(str(trial)) or self._drawn()
        if self._global is not None:
            self._global.settle(trial, config)
        self._asked[trial] = config
        return self._coded.decode(config)

    def tell(self, trial: int, outcome: Outcome, params: Mapping[str, Any] | None = None) -> None:
        """The outcome of a trial, of whichever configuration it was."""
        self._learn_earlier()
        config = self._asked.pop(trial)
        if params is not None:
            suggested, config = config, self._coded.encode_whole(searched_part(self._space, params))
            self._replace(str(trial), suggested, config)
        from_local_search = self._search._trial_proposed_by.get(str(trial))
        if self._global is not None and not from_local_search:
            self._global.learn(trial, config, outcome)
        self._learn(trial, config, outcome)

    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial of an earlier session; the search goes on from the best of them."""
        config = self._coded.encode_whole(searched_part(self._space, params))
        drop_tried(self._points, config)
        if outcome is None:
            self._asked[trial] = config
            self._search._result[self._search._ls.config_signature(config)] = {}  # under way
            return
        self._earlier.append((trial, config, outcome))
        if self._global is not None:
            self._global.learn(trial, config, outcome)

    def _suggested(self, name: str) -> Config | None:
        if len(self._search._result) >= self._coded.size:
            return None  # everything was tried
        for _ in range(_MAX_ATTEMPTS):
            config: Config | None = self._search.suggest(name)
            if config is not None:
                return config
        return None

    def _drawn(self) -> Config:
        """A random configuration, if possible one that was not tried."""
        for _ in range(_MAX_ATTEMPTS):
            config: Config = self._search._ls.complete_config({})[0]
            signature = self._search._ls.config_signature(config)
            if signature not in self._search._result:
                self._search._result[signature] = {}  # under way
                break
        return config

    def _learn_earlier(self) -> None:
        """Best first, for a local search begins from the first one that is good enough."""
        for trial, config, outcome in sorted(self._earlier, key=lambda e: _merit(e[2])):
            self._search._init_used = True  # the starting point had its turn then
            self._learn(trial, config, outcome)
        self._earlier.clear()

    def _learn(self, trial: int, config: Config, outcome: Outcome) -> None:
        """Tell FLAML. It takes a trial that it has not suggested as a candidate to begin from."""
        search, name = self._search, str(trial)
        from_local_search = search._trial_proposed_by.get(name)
        if outcome.loss is None:
            search.on_trial_complete(name, None, error=True)
            # known and without merit: how FLAML marks what breaks a limit on the configuration
            search._result[search._ls.config_signature(config)] = {_LOSS: math.inf}
        else:
            result = {_LOSS: outcome.loss, _CONSTRAINT: 1.0 + outcome.violation}
            # not as one "config", which CFO overlooks when it begins from the best of some points
            result |= {f"config/{key}": value for key, value in config.items()}
            search.on_trial_complete(name, result)
            search._metric_constraint_penalty = [search.penalty]
        if not from_local_search and not search._metric_constraint_satisfied:
            self._widen()

    def _widen(self) -> None:
        """Search farther from the low-cost point, as FLAML does after a local search."""
        search = self._search
        low, high = search._ls_bound_min, search._ls_bound_max
        search._expand_admissible_region(low, high, search._ls.space)
        for key in low:
            low[key], high[key] = max(0.0, low[key]), min(1.0, high[key])
        search._gs_admissible_min.update(low)
        search._gs_admissible_max.update(high)

    def _replace(self, name: str, suggested: Config, config: Config) -> None:
        """FLAML forgets its suggestion; where it would move there, it moves to ``config``."""
        search = self._search
        search._result.pop(search._ls.config_signature(suggested), None)
        thread = search._search_thread_pool.get(search._trial_proposed_by.get(name, 0))
        if thread is not None and thread._is_ls:
            _, step = thread._search_alg._configs[name]
            thread._search_alg._configs[name] = (config, step)


class _GlobalSearch:
    """Optuna's TPE for BlendSearch, which asks it; it is told by :class:`FlamlSearcher`.

    FLAML often runs something else than what was suggested, and tells the result all the same.
    """

    def __init__(self, sampler: OptunaSearcher, coded: FlamlSpace, space: Space) -> None:
        self._sampler, self._coded, self._dimensions = sampler, coded, space.dimensions
        self._asked: dict[int, Config] = {}
        # what FLAML reads
        self.space = self._space = coded.domains
        self.metric = f"{_LOSS}_lagrange"

    def suggest(self, trial_id: str) -> Config:
        """For FLAML."""
        self._forget(int(trial_id))
        drawn = self._sampler.ask(int(trial_id))
        for name, value in drawn.items():
            if isinstance(self._dimensions[name], Integer):
                drawn[name] = self._dimensions[name].snap(value)
        config = self._coded.encode_whole(drawn)
        self._asked[int(trial_id)] = config
        return dict(config)

    def on_trial_complete(self, trial_id: str, result: object = None, error: bool = False) -> None:
        """For FLAML, which may tell the result of another configuration."""

    def settle(self, trial: int, config: Config) -> None:
        """This is what the trial runs; if TPE suggested something else, that is void."""
        if self._asked.get(trial) != config:
            self._forget(trial)

    def learn(self, trial: int, config: Config, outcome: Outcome) -> None:
        """The outcome of a configuration, suggested by TPE or not."""
        params, asked = self._coded.decode(config), self._asked.pop(trial, None)
        if asked is None:
            self._sampler.add(trial, params, outcome)
        else:
            self._sampler.tell(trial, outcome, None if asked == config else params)

    def _forget(self, trial: int) -> None:
        if self._asked.pop(trial, None) is not None:
            self._sampler.tell(trial, Outcome(None, 0.0, failed=True))


def _smoothed(space: Space) -> Space:
    """The space with whole numbers of a wide range as real ones.

    TPE weighs each whole number by an integral, in plain Python: with a few hundred trials behind
    it a suggestion takes ten times as long, and for a wide range the difference is nil.
    """
    dimensions: dict[str, Dimension] = {}
    for name, dimension in space.dimensions.items():
        wide = isinstance(dimension, Integer) and dimension.size > _WIDE
        if isinstance(dimension, Integer) and wide:
            dimensions[name] = Float(float(dimension.low), float(dimension.high), dimension.log)
        else:
            dimensions[name] = dimension
    return space.replacing(dimensions)


def _merit(outcome: Outcome) -> tuple[bool, float, float]:
    loss = outcome.loss
    return loss is None, outcome.violation, 0.0 if loss is None else loss


def _flaml() -> Any:
    """FLAML, or an error that names the install command."""
    with warnings.catch_warnings():
        # only the search algorithms are used
        warnings.filterwarnings("ignore", "flaml.automl is not available", UserWarning)
        flaml = import_extra("flaml", "FLAML", "flaml")
        import_extra("flaml.tune", "FLAML", "flaml")
    logging.getLogger("flaml.tune.searcher").setLevel(logging.WARNING)
    return flaml
