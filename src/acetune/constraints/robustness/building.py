"""Suites: CheckList's released one (github.com/marcotcr/checklist), and those built by code.

A perturbation takes a text and a random generator and returns variants of it: one, several, or none
where the text gives it nothing to change.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import re
import string
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from acetune.constraints.robustness.suite import NEGATIVE, NEUTRAL, POSITIVE, BehaviouralTest, Suite
from acetune.core.errors import AcetuneError, GoalError
from acetune.core.numbers import require_whole

Perturbation: TypeAlias = Callable[[str, np.random.Generator], "str | Sequence[str] | None"]

# what is said in full, and what it is drawn together to
_CONTRACTIONS = {
    "is not": "isn't",
    "are not": "aren't",
    "was not": "wasn't",
    "do not": "don't",
    "does not": "doesn't",
    "did not": "didn't",
    "can not": "can't",
    "will not": "won't",
    "it is": "it's",
    "I am": "I'm",
    "I have": "I've",
    "they are": "they're",
    "we are": "we're",
    "you are": "you're",
}


def fill(template: str, **words: Sequence[str]) -> list[str]:
    """A template with every combination of words.

    >>> fill("This {thing} is {how}.", thing=["film", "plot"], how=["fun"])
    ['This film is fun.', 'This plot is fun.']
    """
    fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    for name in fields:
        if name not in words:
            raise GoalError(f"no words for {{{name}}} in {template!r}; got {sorted(words)}")
    for name in words:
        if name not in fields:
            raise GoalError(f"{template!r} has no {{{name}}}; it has {sorted(set(fields))}")
    names = list(dict.fromkeys(fields))
    return [
        template.format(**dict(zip(names, chosen, strict=True)))
        for chosen in itertools.product(*(words[name] for name in names))
    ]


def typos(count: int = 1) -> Perturbation:
    """Neighbouring characters swapped, so many times.

    >>> typos(1)("ab", np.random.default_rng(0))
    'ba'
    """
    require_whole("count", count, least=1)

    def perturb(text: str, rng: np.random.Generator) -> str | None:
        characters = list(text)
        places = [i for i in range(len(text) - 1) if text[i] != text[i + 1]]
        if not places:
            return None
        for place in rng.choice(places, min(count, len(places)), replace=False):
            characters[place], characters[place + 1] = characters[place + 1], characters[place]
        return "".join(characters)

    return perturb


def punctuation() -> Perturbation:
    """The end of the text without punctuation, and with a full stop.

    >>> punctuation()("Fun!", np.random.default_rng(0))
    ['Fun', 'Fun.']
    """

    def perturb(text: str, rng: np.random.Generator) -> list[str]:
        bare = text.rstrip(string.punctuation + " ")
        return [variant for variant in (bare, bare + ".") if bare and variant != text]

    return perturb


def contractions() -> Perturbation:
    """Full forms drawn together, and the other way round.

    >>> contractions()("He did not mind.", np.random.default_rng(0))
    ["He didn't mind."]
    """

    def perturb(text: str, rng: np.random.Generator) -> list[str]:
        pairs = [*_CONTRACTIONS.items(), *((b, a) for a, b in _CONTRACTIONS.items())]
        changed = (_replace_word(text, old, new, any_case=True) for old, new in pairs)
        return [variant for variant in changed if variant != text]

    return perturb


def other_words(words: Sequence[str], variants: int = 5) -> Perturbation:
    """One of these words (names, places, numbers) replaced by others of them.

    >>> other_words(["Ann", "Bob"])("Ann is here.", np.random.default_rng(0))
    ['Bob is here.']
    """
    if len(set(words)) < 2:
        raise GoalError(f"at least two different words are needed, got {list(words)}")

    def perturb(text: str, rng: np.random.Generator) -> list[str]:
        found = next((word for word in words if _replace_word(text, word, "") != text), None)
        if found is None:
            return []
        others = [word for word in words if word != found]
        chosen = rng.choice(len(others), min(variants, len(others)), replace=False)
        return [_replace_word(text, found, others[i]) for i in chosen]

    return perturb


def added_phrases(phrases: Sequence[str], variants: int = 5) -> Perturbation:
    """The text with a phrase after it.

    >>> added_phrases(["I like it."])("We flew.", np.random.default_rng(0))
    ['We flew. I like it.']
    """
    if not phrases:
        raise GoalError("no phrases to add were given")

    def perturb(text: str, rng: np.random.Generator) -> list[str]:
        chosen = rng.choice(len(phrases), min(variants, len(phrases)), replace=False)
        end = "" if text.rstrip().endswith((".", "!", "?")) else "."
        return [f"{text.rstrip()}{end} {phrases[i]}" for i in chosen]

    return perturb


def perturbed(
    name: str,
    texts: Iterable[str],
    perturbation: Perturbation,
    *,
    rule: str = "invariant",
    seed: int = 0,
    capability: str = "",
) -> BehaviouralTest:
    """A test of texts and what a perturbation makes of them; texts it cannot change are left out.

    >>> test = perturbed("typos", ["good film", "aa"], typos())
    >>> len(test.cases), test.cases[0][0]
    (1, 'good film')
    """
    rng = np.random.default_rng(seed)
    cases = []
    for text in texts:
        found = perturbation(text, rng)
        variants = [found] if isinstance(found, str) else list(found or ())
        if variants:
            cases.append((text, *variants))
    if not cases:
        raise GoalError(f"test {name!r}: the perturbation changed none of the texts")
    return BehaviouralTest(name, tuple(cases), rule=rule, capability=capability)


def _replace_word(text: str, old: str, new: str, *, any_case: bool = False) -> str:
    """Every whole occurrence replaced; in any case, a capital at the beginning stays one."""

    def put(match: re.Match[str]) -> str:
        keep_capital = any_case and match[0][:1].isupper() and not old[:1].isupper()
        return new[:1].upper() + new[1:] if keep_capital else new

    flags = re.IGNORECASE if any_case else re.NOFLAG
    return re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", put, text, flags=flags)


GOOD = ("good", "great", "fun", "charming", "brilliant", "lovely", "moving", "clever")
BAD = ("bad", "awful", "boring", "dull", "clumsy", "dreadful", "tedious", "silly")
PLAIN = ("French", "long", "black-and-white", "recent")
THINGS = ("film", "story", "cast", "script", "music", "scene")
NAMES = ("Ann", "Boris", "Chen", "Dana", "Emil", "Fatma")


def sentiment_suite(most: int = 50, seed: int = 0) -> Suite:
    """Ten tests on made sentences about films: words, templates, typos, names, phrases.

    Parameters
    ----------
    most:
        Up to this many cases per test.

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


# the paper's tasks 1 to 21, by their names in the release
PAPER_TESTS = (
    "single positive words",
    "single negative words",
    "single neutral words",
    "Sentiment-laden words in context",
    "neutral words in context",
    "intensifiers",
    "change neutral words with BERT",
    "add positive phrases",
    "add negative phrases",
    "add random urls and handles",
    "punctuation",
    "typos",
    "2 typos",
    "contractions",
    "change names",
    "change locations",
    "change numbers",
    "protected: race",
    "protected: sexual",
    "protected: religion",
    "protected: nationality",
)
# directional tests say in code what they expect; these are known
_DIRECTIONAL = {
    "intensifiers": "not less confident",
    "reducers": "not more confident",
    "add positive phrases": "not more negative",
    "add negative phrases": "not more positive",
}


def load_checklist(
    path: str | os.PathLike[str],
    tests: Sequence[str] | None = PAPER_TESTS,
    *,
    most: int = 300,
    seed: int = 0,
) -> Suite:
    """The released suite, from a file of lines of JSON (plain or gzipped).

    Parameters
    ----------
    path:
        One test a line: ``name``, ``type`` (MFT, INV or DIR), ``capability``, ``labels`` and
        ``data`` as CheckList's own objects have them. ``docs/constraints.md`` has the lines of
        code that write such a file from the release.
    tests:
        Names; the paper's 21 by default, None for all whose rule is known (CheckList writes some
        expectations as code).
    most, seed:
        Up to this many cases per test, drawn with this seed.
    """
    if isinstance(tests, str):
        raise GoalError(f"tests must be a list of names, got {tests!r}")
    found = {test["name"]: test for test in _read(Path(path))}
    if tests is None:
        tests = [name for name, test in found.items() if _has_rule(test)]
    missing = [name for name in tests if name not in found]
    if missing:
        raise GoalError(f"{path} has no test {missing[0]!r}; it has {sorted(found)}")
    return Suite(_test(found[name]) for name in tests).sample(most, seed)


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        tests = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError, EOFError) as error:
        raise AcetuneError(
            f"cannot read {path} as a suite, one test as JSON a line: {error}"
        ) from None
    for number, test in enumerate(tests, start=1):
        keys = ("name", "type", "data", "labels")
        lacking = [key for key in keys if not isinstance(test, dict) or key not in test]
        if lacking:
            raise AcetuneError(f"{path}: test {number} has no {lacking[0]!r}")
    return tests


def _has_rule(test: dict[str, Any]) -> bool:
    if test["type"] == "MFT":
        return test["labels"] is not None
    return test["type"] == "INV" or test["name"] in _DIRECTIONAL


def _test(found: dict[str, Any]) -> BehaviouralTest:
    name, labels, rule = found["name"], found["labels"], None
    if found["type"] != "MFT":
        rule = "invariant" if found["type"] == "INV" else _DIRECTIONAL.get(name)
        labels = None
    if labels is None and rule is None:
        known = ", ".join(_DIRECTIONAL)
        raise GoalError(
            f"test {name!r} has no labels, and what it expects is not known; of the directional "
            f"tests these are: {known}. Make it a BehaviouralTest of your own with a rule."
        )
    return BehaviouralTest(name, tuple(found["data"]), labels, rule, found.get("capability", ""))
