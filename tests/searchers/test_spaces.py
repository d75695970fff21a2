"""Spaces as people write them: steps, spaces inside spaces, and what Optuna and Ray write."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

import acetune
from acetune import Searcher, Trial
from acetune.core.errors import SpaceError, StudyChangedError
from acetune.core.outcome import Outcome
from acetune.replay.recorder import draw
from acetune.searchers import SEARCHER_NAMES
from acetune.searchers.space import MISSING, Choice, Float, Integer, Space
from acetune.testing import check_searcher
from properties import examples
from searchers.helpers import made

MODELS = {
    "model": acetune.choice(
        [
            {"kind": "linear", "penalty": acetune.loguniform(0.01, 1.0)},
            {
                "kind": "trees",
                "depth": acetune.randint(2, 8, step=2),
                "penalty": acetune.uniform(0.0, 1.0, step=0.1),
                "boost": {"rate": acetune.uniform(0.1, 1.0), "dart": acetune.choice([True, 1])},
            },
            None,
        ]
    ),
    "data": {"share": acetune.uniform(0.5, 1.0), "seed": 7},
    "fixed": "f",
}


# -- steps -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dimension", "values"),
    [
        (acetune.uniform(0, 0.5, step=0.1), [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (acetune.uniform(0.1, 1, step=0.3), [0.1, 0.4, 0.7, 1.0]),
        (acetune.uniform(0, 1, step=0.3), [0.0, 0.3, 0.6, 0.9]),
        (acetune.uniform(-1, 1, step=1), [-1.0, 0.0, 1.0]),
        (acetune.randint(1, 10, step=4), [1, 5, 9]),
        (acetune.randint(3, 3, step=5), [3]),
    ],
)
def test_steps_are_hit_exactly(dimension: Float | Integer, values: list[float]) -> None:
    space, many = Space({"x": dimension}), 60
    found = [space.at([(i + 0.5) / many])["x"] for i in range(many)]
    assert sorted(set(found)) == values and dimension.size == len(values)
    assert {type(value) for value in found} == {type(values[0])}
    counts = [found.count(value) for value in values]
    assert max(counts) - min(counts) <= 1  # all are as likely, those at the ends too
    assert all(dimension.contains(value) for value in values)


def test_what_is_not_a_step_lies_outside() -> None:
    dimension = acetune.uniform(0, 1, step=0.1)
    assert dimension.contains(3 * 0.1) and dimension.snap(3 * 0.1) == 0.3
    assert not any(map(dimension.contains, [0.35, -0.1, 1.1, float("nan"), float("inf"), "a"]))
    whole = acetune.randint(1, 10, step=4)
    assert not any(map(whole.contains, [2, 13, -3, 5.5, float("nan"), float("inf")]))


def test_a_step_leads_to_a_second_value() -> None:
    with pytest.raises(SpaceError, match=r"step=2\): a step of 2 leads beyond 1, so 0 is the only"):
        acetune.uniform(0, 1, step=2)
    with pytest.raises(SpaceError, match="a step of 5 leads beyond 4, so 3 is the only value"):
        acetune.randint(3, 4, step=5)


@pytest.mark.parametrize("step", [0, -0.1, float("inf"), float("nan"), "0.1", True])
def test_a_step_must_be_a_number_above_zero(step: Any) -> None:
    with pytest.raises(SpaceError, match="step must be"):
        acetune.uniform(0, 1, step=step)
    with pytest.raises(SpaceError, match="step must be"):
        acetune.randint(0, 10, step=step)
    with pytest.raises(SpaceError, match=r"step must be a whole number, got 0\.5"):
        acetune.randint(0, 10, step=0.5)  # type: ignore[arg-type]


# -- properties --------------------------------------------------------------------------------

_numbers = st.floats(-1e6, 1e6, allow_subnormal=False)


@st.composite
def dimensions(drawing: Any) -> Float | Integer | Choice:
    kind = drawing(st.sampled_from(["float", "integer", "choice"]))
    if kind == "choice":
        options = st.lists(st.sampled_from(["a", "b", 1, True, None, 2.5]), min_size=1, max_size=4)
        return Choice(tuple({repr(option): option for option in drawing(options)}.values()))
    log = drawing(st.booleans())
    if kind == "integer":
        low = drawing(st.integers(1 if log else -1000, 1000))
        high = low + drawing(st.integers(0, 1000))
        return Integer(low, high, log, drawing(st.integers(1, min(50, high - low or 50))))
    low, high = sorted([drawing(_numbers), drawing(_numbers)])
    if log:
        low, high = abs(low) + 1e-3, abs(low) + 1e-3 + (high - low)
    step = drawing(st.none() | st.sampled_from([0.1, 0.25, 1.0, 3.7, 100.0]))
    return Float(low, high, log, None if step is None or 0 < high - low < step else step)


def spaces(deep: int = 2) -> Any:
    inside: Any = dimensions() | st.sampled_from([3, "fixed", None])
    if deep:
        inside |= spaces(deep - 1)
        inside |= st.lists(spaces(deep - 1) | st.sampled_from([None, "plain"]), max_size=3).map(
            _chosen_from
        )
    return st.dictionaries(st.sampled_from("abcd"), inside, max_size=3)


def _chosen_from(options: list[Any]) -> Choice:
    """A choice of these, which can be told apart."""
    tagged = [{**o, "tag": f"t{n}"} if isinstance(o, dict) else o for n, o in enumerate(options)]
    return Choice((*[o for i, o in enumerate(tagged) if o not in tagged[:i]], "last"))


@examples(200)
@given(spaces().map(lambda inside: {"first": acetune.uniform(0, 1), **inside}), st.data())
def test_a_configuration_lies_in_its_space_and_comes_back(given_space: Any, data: Any) -> None:
    space = Space(given_space)
    place = data.draw(st.lists(st.floats(0, 1), min_size=len(space.names), max_size=99))
    searched = space.at(place[: len(space.names)])
    assert list(searched) == [name for name in space.names if space.has(name, searched)]
    for name, value in searched.items():
        assert space.dimensions[name].contains(value)
    params = space.complete(searched)
    assert space.flatten(params) == space.require_point(params) == searched
    kept = json.loads(json.dumps(params))
    assert space.flatten(kept) == searched  # as it comes from a study file
    again = space.place(searched)
    assert [p == MISSING for p in again] == [name not in searched for name in space.names]
    _assert_near(space, space.at([max(p, 0.0) for p in again]), searched)
    described = json.loads(json.dumps(space.describe()))
    same = Space.from_description(described)
    assert same.describe() == described and same.names == space.names
    assert same.complete(searched) == params
    drawn = draw(space, 0, 1)
    assert space.complete(space.flatten(drawn)) == drawn


def _assert_near(space: Space, found: dict[str, Any], searched: dict[str, Any]) -> None:
    """The same, but for the rounding of real numbers."""
    assert list(found) == list(searched)
    for name, value in searched.items():
        dimension = space.dimensions[name]
        if isinstance(dimension, Float) and dimension.step is None:
            # a place has 53 bits of the whole range
            width = abs(dimension.high) + abs(dimension.low)
            assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-12 * width)
        elif isinstance(dimension, Choice):  # equal options have one place
            assert dimension.options.index(found[name]) == dimension.options.index(value)
        else:
            assert found[name] == value


# -- spaces inside spaces ----------------------------------------------------------------------


def test_names_and_configurations_of_a_nested_space() -> None:
    space = Space(MODELS)
    assert space.names == [
        "model",
        "model.penalty",
        "model.depth",
        "model.penalty#2",
        "model.boost.rate",
        "model.boost.dart",
        "data.share",
    ]
    assert space.complete({"model": "linear", "model.penalty": 0.1, "data.share": 0.5}) == {
        "model": {"kind": "linear", "penalty": 0.1},
        "data": {"share": 0.5, "seed": 7},
        "fixed": "f",
    }
    place = [0.99, *[0.5] * (len(space.names) - 1)]
    assert space.at(place) == {"model": None, "data.share": 0.75}
    with pytest.raises(SpaceError, match=r"must have the dimensions \['model', 'data.share'\]"):
        space.complete({"model": None, "model.penalty": 0.1, "data.share": 0.5})


@pytest.mark.parametrize(
    ("point", "found"),
    [
        ({"model": {"kind": "trees"}}, {"model": "trees"}),
        ({"model": {"depth": 4}}, {"model": "trees", "model.depth": 4}),
        ({"model": None, "fixed": "f"}, {"model": None}),
        ({"model": {"kind": "linear", "penalty": 1}}, {"model": "linear", "model.penalty": 1.0}),
        ({"data": {"share": 0.6}}, {"data.share": 0.6}),
    ],
)
def test_points_of_a_nested_space(point: Any, found: Any) -> None:
    assert Space(MODELS).require_point(point) == found
    searcher = made("forest", space=Space(MODELS), points=[point])
    assert found.items() <= searcher.ask(1).items()


@pytest.mark.parametrize(
    ("point", "error"),
    [
        ({"model": {"penalty": 0.1}}, r"model=.* fits several of the options .*: say which"),
        ({"model": {"kind": "svm"}}, r"model=.*is none of the options .*fixed to 'linear'"),
        ({"model": {"kind": "trees", "depth": 3}}, r"trees: model.depth=3 lies outside"),
        ({"data": {"rows": 3}}, r"'rows' in 'data' is not searched; the space has \['share'\]"),
        ({"data": 3}, "'data' must be a dict with share, seed, got 3"),
    ],
)
def test_wrong_points_of_a_nested_space(point: Any, error: str) -> None:
    with pytest.raises(SpaceError, match=error):
        Space(MODELS).require_point(point)


@pytest.mark.parametrize(
    ("space", "error"),
    [
        (
            {"m": acetune.choice([{"x": acetune.uniform(0, 1)}, {"x": acetune.randint(5, 6)}])},
            r"space\['m'\]: options 1 and 2 have the same names.*give each a fixed value",
        ),
        ({"a": {"b": acetune.uniform(0, 1)}, "a.b": 3}, r"the name 'a.b' has a dot"),
        ({"a": {"b": [1, 2]}}, r"space\['a.b'\] is \[1, 2\]; use acetune.uniform"),
        ({"a": {"b": 1}}, "the space is empty"),
        ({"x\udc82": acetune.uniform(0, 1)}, r"a dimension is 'x\\udc82', with half a character"),
        ({"x": acetune.uniform(0, 1), "a": {"b": "\ud800"}}, r"space\['a.b'\] is '\\ud800', with"),
        ({"a": {"grid_search": [1, 2]}}, r"space\['a'\]: a grid .*acetune.choice\(\[1, 2\]\)"),
    ],
)
def test_wrong_nested_spaces(space: Any, error: str) -> None:
    with pytest.raises(SpaceError, match=error):
        Space(space)


@pytest.mark.parametrize("name", SEARCHER_NAMES)
def test_every_searcher_searches_nested_spaces_with_steps(name: str) -> None:
    def make(space: dict[str, Any], seed: int) -> Searcher:
        return made(name, seed, Space(space))

    check_searcher(make, space=MODELS, trials=11 if name == "gp" else 30)


@pytest.mark.parametrize("name", ["forest", "tpe", "blendsearch"])
def test_learned_within_an_option(name: str) -> None:
    """Trees with depth 6 are best: most of the later suggestions should be of this option."""
    searcher, space = made(name, space=Space(MODELS)), Space(MODELS)
    late = []
    for number in range(1, 81):
        searched = searcher.ask(number)
        assert space.flatten(space.complete(searched)) == searched
        loss = 1.0 if searched["model"] != "trees" else abs(searched["model.depth"] - 6) / 10
        searcher.tell(number, Outcome(loss, 0.0))
        late += [loss] * (number > 50)
    assert sum(loss < 0.5 for loss in late) > len(late) / 2  # a third by chance


def train(trial: Trial) -> None:
    model = trial.params["model"]
    kind = "none" if model is None else model["kind"]
    assert (kind == "trees") == (model is not None and "depth" in model)
    for step in trial.steps(2):
        trial.report(auc=trial.params["data"]["share"] + 0.1 * (kind == "trees") + 0.01 * step)


def test_a_nested_study_goes_on_and_is_learned_from(tmp_path: Path) -> None:
    study = tmp_path / "study.db"
    options: Any = {"objective": "auc", "mode": "max", "workers": 1, "progress": False, "seed": 1}
    first = acetune.tune(train, MODELS, study=study, max_trials=14, **options)
    frame = first.trials
    assert {"param.model.kind", "param.data.share", "param.data.seed"} <= set(frame.columns)
    space = Space(MODELS)
    result = acetune.tune(train, MODELS, study=study, max_trials=18, **options)
    assert result.best is not None
    assert space.complete(space.flatten(result.best.params)) == result.best.params
    assert "data.share=" in str(result)
    points = [result.best.params]
    new = tmp_path / "other.db"
    other = acetune.tune(
        train, MODELS, study=new, max_trials=3, learn_from=[study], points=points, **options
    )
    assert other.best is not None and other.best.value >= result.best.value
    acetune.export.to_csv(study, tmp_path / "trials.csv")
    header = (tmp_path / "trials.csv").read_text().splitlines()[0].split(",")
    assert "param.model.kind" in header and "param.model.depth" in header
    changed = {**MODELS, "data": {"share": acetune.uniform(0.5, 0.9), "seed": 7}}
    with pytest.raises(StudyChangedError, match=r"data was \{'seed': 7, 'share': uniform"):
        acetune.tune(train, changed, study=study, max_trials=20, **options)


# -- what Optuna and Ray write -------------------------------------------------------------------

_LOW, _HIGH = 1e-9, 1.0 - 1e-9


def ends(dimension: Float | Integer) -> tuple[float, float]:
    space = Space({"x": dimension})
    return space.at([_LOW])["x"], space.at([_HIGH])["x"]


@pytest.mark.parametrize(
    ("given", "ours"),
    [
        (FloatDistribution(0.5, 2), Float(0.5, 2)),
        (FloatDistribution(0.5, 2, log=True), Float(0.5, 2, True)),
        (FloatDistribution(0, 1, step=0.25), acetune.uniform(0, 1, step=0.25)),
        (FloatDistribution(0, 0.5, step=0.1), acetune.uniform(0, 0.5, step=0.1)),
        (IntDistribution(1, 5), Integer(1, 5)),
        (IntDistribution(1, 500, log=True), Integer(1, 500, True)),
        (IntDistribution(1, 9, step=4), acetune.randint(1, 9, step=4)),
        (CategoricalDistribution(["a", None, 1.5]), Choice(("a", None, 1.5))),
    ],
)
def test_distributions_of_optuna(given: BaseDistribution, ours: Any) -> None:
    """What Optuna's own sampler draws lies in what was read, and reaches the same ends."""
    space = Space({"x": given})
    assert space.describe() == Space({"x": ours}).describe()
    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(sampler=sampler)
    drawn = [study.ask({"x": given}).params["x"] for _ in range(300)]
    assert all(space.dimensions["x"].contains(value) for value in drawn)
    if isinstance(ours, Integer) or (isinstance(ours, Float) and ours.step):
        snapped = {ours.snap(value) for value in drawn}
        assert ends(ours) == (min(snapped), max(snapped)) or ours.log
        assert max(snapped) <= ours.high and (ours.log or max(snapped) == ours.high)


def test_what_optuna_cannot_say_is_refused() -> None:
    with pytest.warns(UserWarning), pytest.raises(SpaceError, match=r"space\['x'\]: an option"):
        Space({"x": CategoricalDistribution(((1, 2), (3,)))})


RAY = [
    ("uniform", (0.5, 2), Float(0.5, 2)),
    ("loguniform", (0.5, 2), Float(0.5, 2, True)),
    ("quniform", (0, 0.5, 0.1), Float(0, 0.5, False, 0.1)),
    ("qloguniform", (0.1, 0.5, 0.1), Float(0.1, 0.5, True, 0.1)),
    ("randint", (1, 5), Integer(1, 4)),
    ("lograndint", (1, 5), Integer(1, 4, True)),
    ("qrandint", (1, 5), Integer(1, 4)),
    ("qrandint", (2, 9, 2), Integer(2, 8, False, 2)),
    ("qrandint", (3, 8, 4), Integer(4, 8, False, 4)),
    ("qlograndint", (2, 16, 2), Integer(2, 16, True, 2)),
    ("choice", (["a", 2, None],), Choice(("a", 2, None))),
]


@pytest.mark.parametrize(("name", "arguments", "ours"), RAY)
def test_domains_of_ray(name: str, arguments: tuple[Any, ...], ours: Any) -> None:
    """What Ray's own sampler draws lies in what was read, and reaches the same ends."""
    tune_of_ray = pytest.importorskip("ray.tune")
    domain = getattr(tune_of_ray, name)(*arguments)
    space = Space({"x": domain})
    assert space.describe() == Space({"x": ours}).describe()
    drawn = [domain.sample(random_state=seed) for seed in range(400)]
    assert all(space.dimensions["x"].contains(value) for value in drawn)
    if isinstance(ours, Integer) or (isinstance(ours, Float) and ours.step):
        snapped = {ours.snap(value) for value in drawn}
        assert (min(snapped), max(snapped)) == ends(ours) == (ours.low, ours.high)


@pytest.mark.parametrize(
    ("name", "arguments", "error"),
    [
        ("sample_from", (lambda config: 1,), r"space\['a.x'\]: tune.sample_from draws by .*choice"),
        ("randn", (0, 1), r"space\['a.x'\]: it is drawn as Normal, without bounds .*uniform"),
        ("qrandn", (0, 1, 0.1), r"space\['a.x'\]: it is drawn as Normal, without bounds"),
        ("grid_search", ([1, 2],), r"space\['a.x'\]: a grid is not searched"),
        ("choice", ([[1, 2], [3]],), r"space\['a.x'\]: an option must be"),
        ("randint", (3, 3), r"space\['a.x'\]: tune.randint\(3, 3\) has no value"),
        ("qrandint", (5, 7, 4), r"space\['a.x'\]: there is no multiple of 4 between 5 and 7"),
    ],
)
def test_what_ray_cannot_say_is_refused(name: str, arguments: Any, error: str) -> None:
    tune_of_ray = pytest.importorskip("ray.tune")
    domain = getattr(tune_of_ray, name)(*arguments)
    with pytest.raises(SpaceError, match=error):
        Space({"a": {"x": domain}, "y": acetune.uniform(0, 1)})


def test_choices_of_dicts_as_ray_users_write_them() -> None:
    tune_of_ray = pytest.importorskip("ray.tune")
    net = {"kind": "net", "layers": tune_of_ray.randint(1, 4)}
    space = Space({"model": tune_of_ray.choice([net, {"kind": "linear"}])})
    assert space.names == ["model", "model.layers"]
    assert space.dimensions["model.layers"] == Integer(1, 3)
    rng = random.Random(0)
    found = [space.complete(space.at([rng.random(), rng.random()])) for _ in range(50)]
    layers = {p["model"].get("layers") for p in found}
    assert layers == {None, 1, 2, 3}


def test_neither_library_is_imported_to_read_a_space() -> None:
    import subprocess
    import sys

    code = (
        "import sys, acetune; from acetune.searchers.space import Space; "
        "Space({'x': acetune.uniform(0, 1), 'y': {'z': acetune.choice([1, 2])}}); "
        "assert not {'ray', 'optuna'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_nan_is_no_option() -> None:
    """It equals nothing, so a study with it could not go on."""
    with pytest.raises(SpaceError, match="an option is NaN"):
        acetune.choice([float("nan"), 1])


def test_an_option_that_no_file_can_hold_is_refused() -> None:
    with pytest.raises(SpaceError, match=r"an option is 'b\\udc82', with half a character"):
        acetune.choice(["a", "b\udc82"])


@pytest.mark.parametrize("options", [[1, 1], ["a", "b", "a"], [None, None], [True, 1, True]])
def test_an_option_is_named_once(options: list[Any]) -> None:
    with pytest.raises(SpaceError, match=f"the option {options[-1]!r} twice"):
        acetune.choice(options)
    acetune.choice([1, True, 1.0])  # what training tells apart


@pytest.mark.parametrize(
    ("space", "size"),
    [
        ({"a": acetune.choice([1, 2]), "b": 3}, 2),
        ({"a": acetune.uniform(1, 1)}, 1),
        ({"a": acetune.uniform(0, 1, step=0.5), "b": {"c": acetune.randint(1, 4)}}, 12),
        ({"a": acetune.choice([None, {"b": acetune.randint(1, 4)}, {"c": 1}])}, 6),
    ],
)
def test_how_many_configurations_there_are(space: dict[str, Any], size: int) -> None:
    assert Space(space).size == size
    assert Space({**space, "wide": acetune.uniform(0, 1)}).size > 2**60
