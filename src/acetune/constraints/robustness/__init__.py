"""Robustness: behavioural test suites in the manner of CheckList (Ribeiro et al., ACL 2020)."""

from acetune.constraints.robustness.answers import NEGATIVE, NEUTRAL, POSITIVE, Answers
from acetune.constraints.robustness.building import (
    added_phrases,
    contractions,
    fill,
    other_words,
    perturbed,
    punctuation,
    typos,
)
from acetune.constraints.robustness.check import RobustnessCheck
from acetune.constraints.robustness.checklist import PAPER_TESTS, load_checklist
from acetune.constraints.robustness.own_suite import sentiment_suite
from acetune.constraints.robustness.rules import RULES
from acetune.constraints.robustness.suite import BehaviouralTest, FailureRate, Suite
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
