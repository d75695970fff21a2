"""Suites built by code: templates to fill in, and perturbations of texts one has.

A perturbation takes a text and a random generator and returns variants of it: one, several, or none
where the text gives it nothing to change.
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from acetune.constraints.robustness.suite import BehaviouralTest
from acetune.core.numbers import require_whole
from acetune.core.errors import GoalError

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
