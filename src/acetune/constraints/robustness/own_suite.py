"""A small sentiment suite made by code, with the kinds of tests that CheckList has."""

from __future__ import annotations

from acetune.constraints.robustness.answers import NEGATIVE, NEUTRAL, POSITIVE
from acetune.constraints.robustness.building import (
    added_phrases,
    contractions,
    fill,
    other_words,
    perturbed,
    punctuation,
    typos,
)
from acetune.constraints.robustness.suite import BehaviouralTest, Suite

GOOD = ("good", "great", "fun", "charming", "brilliant", "lovely", "moving", "clever")
BAD = ("bad", "awful", "boring", "dull", "clumsy", "dreadful", "tedious", "silly")
PLAIN = ("French", "long", "black-and-white", "recent")
THINGS = ("film", "story", "cast", "script", "music", "scene")
NAMES = ("Ann", "Boris", "Chen", "Dana", "Emil", "Fatma")
PLACES = ("Paris", "Lagos", "Lima", "Oslo", "Delhi")


def sentiment_suite(most: int = 50, seed: int = 0) -> Suite:
    """Ten tests on made sentences about films: words, templates, typos, names, phrases.

    Parameters
    ----------
    most:
        Up to so many cases a test.

    >>> suite = sentiment_suite(most=5)
    >>> len(suite.tests), max(len(test.cases) for test in suite.tests)
    (10, 5)
    """
    about = [f"This {thing} is {word}." for thing in THINGS for word in (*GOOD, *BAD)]
    negated = [f"This {thing} is not {word}." for thing in THINGS for word in (*GOOD, *BAD)]
    people = fill("{name} calls the {thing} {how}.", name=NAMES, thing=THINGS, how=(*GOOD, *BAD))
    stronger = [
        (text, text.replace(" is ", f" is {very} "))
        for text in about
        for very in ("very", "really", "truly")
    ]
    tests = [
        BehaviouralTest("positive words", GOOD, POSITIVE, capability="vocabulary"),
        BehaviouralTest("negative words", BAD, NEGATIVE, capability="vocabulary"),
        BehaviouralTest(
            "neutral sentences",
            fill("This is a {how} {thing}.", how=PLAIN, thing=THINGS),
            NEUTRAL,
            capability="vocabulary",
        ),
        BehaviouralTest(
            "intensifiers", stronger, rule="not less confident", capability="vocabulary"
        ),
        perturbed(
            "added praise",
            about,
            added_phrases([f"I find it {word}." for word in GOOD]),
            rule="not more negative",
            seed=seed,
            capability="vocabulary",
        ),
        perturbed(
            "added blame",
            about,
            added_phrases([f"I find it {word}." for word in BAD]),
            rule="not more positive",
            seed=seed,
            capability="vocabulary",
        ),
        perturbed("typos", about, typos(), seed=seed, capability="robustness"),
        perturbed("punctuation", about, punctuation(), seed=seed, capability="robustness"),
        perturbed("contractions", negated, contractions(), seed=seed, capability="robustness"),
        perturbed("names", people, other_words(NAMES), seed=seed, capability="names"),
    ]
    return Suite(tests).sample(most, seed)
