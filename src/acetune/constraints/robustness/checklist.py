"""CheckList's released sentiment suite (github.com/marcotcr/checklist), and the ACE paper's part.

The paper takes 21 of its tests, with up to 300 cases each.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acetune.constraints.robustness.suite import BehaviouralTest, Suite
from acetune.core.errors import AcetuneError, GoalError

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
        Up to so many cases a test, drawn with this seed.
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
