"""Behavioural tests: the rules by hand, and against a second implementation."""

from __future__ import annotations

import gzip
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acetune.constraints.robustness import (
    PAPER_TESTS,
    RULES,
    Answers,
    BehaviouralTest,
    RobustnessCheck,
    Suite,
    added_phrases,
    contractions,
    fill,
    load_checklist,
    other_words,
    perturbed,
    punctuation,
    sentiment_suite,
    typos,
)
from acetune.constraints.robustness.suite import FailureRate, average
from acetune.core.errors import AcetuneError, GoalError, ReportError
from tests.constraints import plain_robustness


@pytest.mark.parametrize(
    ("positive", "expected"),
    [(0.0, 0), (0.33, 0), (1 / 3, 1), (0.5, 1), (2 / 3, 1), (0.67, 2), (1.0, 2)],
)
def test_the_middle_third_is_neutral(positive: float, expected: int) -> None:
    assert Answers(np.array([positive])).labels.tolist() == [expected]
    assert Answers(np.array([[1 - positive, positive]])).labels.tolist() == [expected]


@pytest.mark.parametrize(
    ("rule", "original", "variants", "failed"),
    [
        # invariance: the label must change and the confidence move by more than 0.1
        ("invariant", 0.9, [0.95, 0.7], False),  # the same label
        ("invariant", 0.9, [0.2], True),
        ("invariant", 0.9, [0.85, 0.2], True),  # any variant
        ("invariant", 0.70, [0.64], False),  # another label, but hardly moved
        ("invariant", 0.70, [0.60], False),  # moved by 0.1: not more than that
        ("invariant", 0.70, [0.59], True),
        ("invariant", 0.5, [0.68], True),  # neutral to positive
        ("invariant", 0.30, [0.36], False),
        # intensifiers: no drop of more than 0.1 in the label of the original
        ("not less confident", 0.9, [0.85], False),
        ("not less confident", 0.9, [0.79], True),
        ("not less confident", 0.1, [0.05], False),
        ("not less confident", 0.1, [0.25], True),  # less negative
        ("not less confident", 0.5, [0.1], None),  # neutral: left out
        # reducers, the other way round
        ("not more confident", 0.8, [0.95], True),
        ("not more confident", 0.8, [0.2], False),
        ("not more confident", 0.5, [0.9], None),
        # added phrases: sentiment is P(positive) - P(negative), so it moves twice as far
        ("not more negative", 0.5, [0.46], False),
        ("not more negative", 0.5, [0.44], True),
        ("not more negative", 0.5, [0.99], False),
        ("not more positive", 0.5, [0.54], False),
        ("not more positive", 0.5, [0.56], True),
        ("not more positive", 0.5, [0.01], False),
    ],
)
def test_rules_by_hand(
    rule: str, original: float, variants: list[float], failed: bool | None
) -> None:
    texts = ["first", *(f"variant {i}" for i in range(len(variants)))]
    suite = Suite([BehaviouralTest("t", [texts], rule=rule)])
    found = suite.failure_rates(np.array([original, *variants]))["t"]
    expected = FailureRate(0, 0) if failed is None else FailureRate(int(failed), 1)
    assert found == expected


def test_a_prediction_must_be_the_label() -> None:
    suite = Suite([BehaviouralTest("words", ["a", "b", "c", "d"], labels=[0, 1, 2, 2])])
    found = suite.failure_rates(np.array([0.2, 0.2, 0.9, 0.5]))["words"]
    assert (found.failures, found.cases, found.rate) == (2, 4, 0.5)


@st.composite
def _tests(draw: st.DrawFn) -> tuple[list[BehaviouralTest], dict[str, list[float]]]:
    """Tests over a few texts, and a model's answers to each text."""
    classes = draw(st.sampled_from([2, 3]))
    texts = [f"text {i}" for i in range(draw(st.integers(2, 8)))]
    # on a grid, so that ties, borders and moves of just 0.1 occur
    parts = st.lists(st.integers(0, 10), min_size=classes, max_size=classes).filter(any)
    answers = {t: [p / sum(row) for p in row] for t in texts for row in [draw(parts)]}
    tests = []
    for number in range(draw(st.integers(1, 4))):
        rule = draw(st.sampled_from([None, *RULES]))
        if rule is None:
            cases: list[list[str]] = [
                [t] for t in draw(st.lists(st.sampled_from(texts), min_size=1))
            ]
            marks = st.lists(st.integers(0, 2), min_size=len(cases), max_size=len(cases))
            tests.append(BehaviouralTest(f"test {number}", cases, labels=draw(marks)))
        else:
            case = st.lists(st.sampled_from(texts), min_size=2, max_size=4)
            cases = draw(st.lists(case, min_size=1, max_size=5))
            tests.append(BehaviouralTest(f"test {number}", cases, rule=rule))
    return tests, answers


@given(_tests())
def test_failure_rates_equal_the_plain_ones(
    drawn: tuple[list[BehaviouralTest], dict[str, list[float]]],
) -> None:
    tests, answers = drawn
    suite = Suite(tests)
    found = suite.failure_rates(np.array([answers[text] for text in suite.texts]))
    expected = {
        test.name: plain_robustness.failure_rate(
            test.rule, test.labels, [[answers[text] for text in case] for case in test.cases]
        )
        for test in tests
    }
    assert found == expected
    rates = [failures / cases for failures, cases in expected.values() if cases]
    if rates:
        mean = average(found).value
        assert mean == pytest.approx(sum(rates) / len(rates))


def test_the_average_is_over_tests_and_leaves_out_what_has_no_cases() -> None:
    rates = {"a": FailureRate(1, 10), "b": FailureRate(1, 2), "c": FailureRate(0, 0)}
    found = average(rates)
    assert found.value == pytest.approx(0.3)
    expected = math.sqrt((2 / 12) * (10 / 12) / 10 + 0.25 / 2) / 2
    assert found.stderr == pytest.approx(expected)
    assert math.isnan(rates["c"].rate)
    with pytest.raises(ReportError, match="left out"):
        average({"c": FailureRate(0, 0)})


def test_the_standard_error_covers() -> None:
    """Over suites whose cases are drawn anew, the average lies within 1.96 s.e. of its mean."""
    rng = np.random.default_rng(0)
    shares, cases, hits = np.array([0.01, 0.3, 0.6]), 200, 0
    for _ in range(400):
        failures = rng.binomial(cases, shares)
        found = average({str(i): FailureRate(int(f), cases) for i, f in enumerate(failures)})
        hits += abs(found.value - shares.mean()) <= 1.96 * found.stderr
    assert 0.92 <= hits / 400 <= 0.98


def test_every_text_stands_once() -> None:
    suite = Suite(
        [
            BehaviouralTest("one", ["same", "other"], labels=2),
            BehaviouralTest("two", [("same", "same!"), ("same!", "same")], rule="invariant"),
        ]
    )
    assert suite.texts == ("same", "other", "same!")
    asked: list[tuple[str, ...]] = []

    def predict(model: object, texts: tuple[str, ...]) -> list[float]:
        asked.append(texts)
        return [0.9] * len(texts)

    check = RobustnessCheck(suite, predict)
    found = check("a model")
    assert (found.value, found.stderr > 0) == (0.0, True)
    assert asked == [suite.texts]


def test_a_constant_model_has_a_low_failure_rate() -> None:
    """As documented: it is the objective's part to exclude it."""
    suite = sentiment_suite()
    low = suite.average_failure_rate(np.full(len(suite.texts), 0.5)).value
    assert low < 0.25


def test_samples_are_seeded_and_do_not_depend_on_other_tests() -> None:
    words = BehaviouralTest(
        "words", [f"w{i}" for i in range(100)], labels=[i % 3 for i in range(100)]
    )
    other = BehaviouralTest("other", ["x"], labels=1)
    first = Suite([words, other]).sample(10, seed=1)
    assert [len(test.cases) for test in first.tests] == [10, 1]
    assert Suite([words]).sample(10, seed=1).tests[0].cases == first.tests[0].cases
    assert Suite([words]).sample(10, seed=2).tests[0].cases != first.tests[0].cases
    kept = dict(zip(words.cases, words.labels or (), strict=True))
    drawn = first.tests[0]
    assert drawn.labels == tuple(kept[case] for case in drawn.cases)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BehaviouralTest("", ["x"], labels=1), ["needs a name"]),
        (lambda: BehaviouralTest("t", [], labels=1), ["'t'", "no cases"]),
        (lambda: BehaviouralTest("t", ["x"]), ["labels", "rule"]),
        (lambda: BehaviouralTest("t", ["x"], labels=3), ["case 0", "3"]),
        (lambda: BehaviouralTest("t", ["x", "y"], labels=[1]), ["1 labels for 2 cases"]),
        (lambda: BehaviouralTest("t", [("x", "y")], labels=1), ["one text"]),
        (lambda: BehaviouralTest("t", ["x"], rule="invariant"), ["no variant", "'x'"]),
        (lambda: BehaviouralTest("t", [("x", "y")], rule="odd"), ["'odd'", "invariant"]),
        (lambda: BehaviouralTest("t", "fun", labels=2), ["list of texts", "'fun'"]),
        (lambda: BehaviouralTest("t", [("x", 3)], rule="invariant"), ["case 0", "3"]),  # type: ignore[list-item]
        (lambda: fill("A {word}", word=["x"], other=["y"]), ["{other}", "word"]),
        (lambda: fill("A {}", word=["x"]), ["{}"]),
        (lambda: load_checklist("suite", "typos"), ["list of names", "'typos'"]),
        (lambda: Suite([]), ["at least one test"]),
        (lambda: Suite([BehaviouralTest("t", ["x"], labels=1)] * 2), ["two tests", "'t'"]),
        (lambda: RobustnessCheck("suite", len), ["Suite", "'suite'"]),  # type: ignore[arg-type]
        (lambda: fill("A {word}", other=["x"]), ["{word}", "other"]),
        (lambda: other_words(["x"]), ["two different words"]),
        (lambda: perturbed("t", ["aa"], typos()), ["'t'", "changed none"]),
    ],
)
def test_bad_suites_are_refused(make, words) -> None:
    with pytest.raises(GoalError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ([[0.1, 0.2, 0.3, 0.4]], ["shape (1, 4)"]),
        ([3.2], ["3.2", "logits"]),
        ([math.nan], ["nan"]),
        ([0.5, 0.5], ["1 texts", "2 answers"]),
    ],
)
def test_bad_answers_are_refused(answers: list[float], words: list[str]) -> None:
    suite = Suite([BehaviouralTest("t", ["x"], labels=1)])
    with pytest.raises(ReportError) as caught:
        suite.failure_rates(np.array(answers))
    for word in words:
        assert word in str(caught.value)


@given(st.text(min_size=2, max_size=30), st.integers(0, 5))
def test_a_typo_swaps_neighbours(text: str, seed: int) -> None:
    found = typos(1)(text, np.random.default_rng(seed))
    if found is None:
        assert len(set(text)) == 1
        return
    assert isinstance(found, str)
    (first, second) = [i for i, (a, b) in enumerate(zip(text, found, strict=True)) if a != b]
    assert second == first + 1
    assert (found[first], found[second]) == (text[second], text[first])


def test_perturbations() -> None:
    rng = np.random.default_rng(0)
    assert punctuation()("Fine", rng) == ["Fine."]
    assert punctuation()("Fine.", rng) == ["Fine"]
    assert punctuation()("...", rng) == []
    assert contractions()("That isn't all.", rng) == ["That is not all."]
    assert contractions()("Nothing here.", rng) == []
    assert contractions()("It is", rng) == ["It's"]
    assert other_words(["Will", "Bob"])("I will go", rng) == []  # names are told by their capital
    found = other_words(["Ann", "Bob", "Cid"])("Annabel and Bob", rng)
    assert sorted(found or ()) == ["Annabel and Ann", "Annabel and Cid"]
    assert added_phrases(["Good."])("No stop", rng) == ["No stop. Good."]
    assert fill("{a} {a} {b}", a=["x", "y"], b=["z"]) == ["x x z", "y y z"]


def _released(name: str, kind: str, labels: object, data: list[object]) -> dict[str, object]:
    return {"name": name, "type": kind, "capability": "any", "labels": labels, "data": data}


def _write(path: Path, tests: list[dict[str, object]]) -> Path:
    text = "\n".join(json.dumps(test) for test in tests).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


RELEASED = [
    _released("single positive words", "MFT", 2, ["good", "nice"]),
    _released("Sentiment-laden words in context", "MFT", [2, 0], ["It is good.", "It is bad."]),
    _released("intensifiers", "DIR", None, [["good", "very good"]]),
    _released("reducers", "DIR", None, [["good", "somewhat good"]]),
    _released("add positive phrases", "DIR", None, [["We flew.", "We flew. Great."]]),
    _released("add negative phrases", "DIR", None, [["We flew.", "We flew. Bad."]]),
    _released("typos", "INV", None, [[f"text {i}", f"etxt {i}"] for i in range(400)]),
    _released('"used to" should reduce', "DIR", None, [["good", "once good"]]),
]


@pytest.mark.parametrize("name", ["suite.jsonl", "suite.jsonl.gz"])
def test_the_released_suite_is_read(tmp_path: Path, name: str) -> None:
    path = _write(tmp_path / name, RELEASED)
    suite = load_checklist(path, None)
    rules = {test.name: test.rule or test.labels for test in suite.tests}
    assert rules == {
        "single positive words": (2, 2),
        "Sentiment-laden words in context": (2, 0),
        "intensifiers": "not less confident",
        "reducers": "not more confident",
        "add positive phrases": "not more negative",
        "add negative phrases": "not more positive",
        "typos": "invariant",
    }
    assert len(suite.tests[-1].cases) == 300
    assert pickle.loads(pickle.dumps(suite)).texts == suite.texts


def test_what_the_suite_lacks_is_said(tmp_path: Path) -> None:
    path = _write(tmp_path / "suite.jsonl", RELEASED)
    with pytest.raises(GoalError, match="no test 'single negative words'"):
        load_checklist(path)
    with pytest.raises(GoalError, match="used to"):
        load_checklist(path, ['"used to" should reduce'])
    (tmp_path / "bad.jsonl").write_text("{not json")
    with pytest.raises(AcetuneError, match=r"bad\.jsonl"):
        load_checklist(tmp_path / "bad.jsonl")
    (tmp_path / "short.jsonl").write_text('{"name": "x", "type": "INV", "data": []}')
    with pytest.raises(AcetuneError, match="no 'labels'"):
        load_checklist(tmp_path / "short.jsonl")
    with pytest.raises(AcetuneError, match=r"missing\.jsonl"):
        load_checklist(tmp_path / "missing.jsonl")


def test_whole_numbers_are_asked_for() -> None:
    suite = Suite([BehaviouralTest("t", ["x"], labels=np.int64(1))])
    for call in (lambda: suite.sample(2.5), lambda: suite.sample(1, -1), lambda: typos(0)):  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="whole number"):
            call()


def test_the_papers_tests_are_twenty_one() -> None:
    assert len(set(PAPER_TESTS)) == 21
