"""Robustness: behavioural test suites in the manner of CheckList (Ribeiro et al., ACL 2020)."""

from acetune.constraints.robustness.building import (
    PAPER_TESTS,
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
from acetune.constraints.robustness.suite import (
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    RULES,
    Answers,
    BehaviouralTest,
    FailureRate,
    RobustnessCheck,
    Suite,
)
from acetune.constraints.robustness.transformer import TransformerPredictor

__all__ = [
    "NEGATIVE",
    "NEUTRAL",
    "PAPER_TESTS",
    "POSITIVE",
    "RULES",
    "Answers",
    "BehaviouralTest",
    "FailureRate",
    "RobustnessCheck",
    "Suite",
    "TransformerPredictor",
    "added_phrases",
    "contractions",
    "fill",
    "load_checklist",
    "other_words",
    "perturbed",
    "punctuation",
    "sentiment_suite",
    "typos",
]
