"""Stopping policies, one per file, what one needs to write another, and their names."""

from __future__ import annotations

import ast
import difflib
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acetune.core.decision import Action, Decision
from acetune.core.errors import GoalError
from acetune.core.import_on_use import import_on_use
from acetune.core.ranked_groups import Filing
from acetune.core.reason import Reason, Wording
from acetune.policies.policy import Policy

if TYPE_CHECKING:
    from acetune.policies._ace import ACE
    from acetune.policies._ace2 import ACE2
    from acetune.policies._adaptive import Adaptive
    from acetune.policies._asha import ASHA
    from acetune.policies._asha_lex import ASHALexicographic
    from acetune.policies._asha_stratum import ASHAStratum
    from acetune.policies._backoff import Backoff
    from acetune.policies._bandit import Bandit
    from acetune.policies._hyperband import Hyperband
    from acetune.policies._median import MedianStopping
    from acetune.policies._no_stopping import NoStopping
    from acetune.policies._performance_curve import PerformanceCurve
    from acetune.policies._truncation import TruncationSelection

__all__ = [
    "ACE",
    "ACE2",
    "ASHA",
    "DEFAULT_POLICY",
    "POLICY_NAMES",
    "ASHALexicographic",
    "ASHAStratum",
    "Action",
    "Adaptive",
    "Backoff",
    "Bandit",
    "Decision",
    "Filing",
    "Hyperband",
    "MedianStopping",
    "NoStopping",
    "PerformanceCurve",
    "Policy",
    "Reason",
    "TruncationSelection",
    "Wording",
    "make_policy",
    "parse_policy",
]

# class -> module, opened on use: a worker needs the one policy of its study
_ON_USE = {
    "ACE": "acetune.policies._ace",
    "ACE2": "acetune.policies._ace2",
    "ASHA": "acetune.policies._asha",
    "ASHALexicographic": "acetune.policies._asha_lex",
    "ASHAStratum": "acetune.policies._asha_stratum",
    "Adaptive": "acetune.policies._adaptive",
    "Backoff": "acetune.policies._backoff",
    "Bandit": "acetune.policies._bandit",
    "Hyperband": "acetune.policies._hyperband",
    "MedianStopping": "acetune.policies._median",
    "NoStopping": "acetune.policies._no_stopping",
    "PerformanceCurve": "acetune.policies._performance_curve",
    "TruncationSelection": "acetune.policies._truncation",
}
# name -> class and the options that the name stands for
_POLICIES: dict[str, tuple[str, dict[str, object]]] = {
    "none": ("NoStopping", {}),
    "none+after": ("NoStopping", {"constraints": "after"}),
    "asha": ("ASHA", {}),
    "asha+after": ("ASHA", {"constraints": "after"}),
    "hyperband": ("Hyperband", {}),
    "hyperband+after": ("Hyperband", {"constraints": "after"}),
    "median": ("MedianStopping", {}),
    "median+after": ("MedianStopping", {"constraints": "after"}),
    "bandit": ("Bandit", {}),
    "bandit+after": ("Bandit", {"constraints": "after"}),
    "truncation": ("TruncationSelection", {}),
    "truncation+after": ("TruncationSelection", {"constraints": "after"}),
    "curve": ("PerformanceCurve", {}),
    "curve+after": ("PerformanceCurve", {"constraints": "after"}),
    "asha-stratum": ("ASHAStratum", {}),
    "asha-stratum-adaptive": ("ASHAStratum", {"interval": "adaptive"}),
    "asha-lex": ("ASHALexicographic", {}),
    "backoff": ("Backoff", {}),
    "ace2": ("ACE2", {}),
    "adaptive": ("Adaptive", {}),
    "ace": ("ACE", {}),
    "ace-hard": ("ACE", {"stopping": "first-violation"}),
    "ace-noskip": ("ACE", {"gate": False}),
    "ace-beta1": ("ACE", {"interval": 1}),
    "ace-betaT": ("ACE", {"interval": "end"}),
}
POLICY_NAMES = tuple(_POLICIES)
#: What studies use that name no policy.
DEFAULT_POLICY = "adaptive"


if not TYPE_CHECKING:  # misspelt names are still found by type checkers

    def __getattr__(name: str) -> Any:
        return import_on_use(__name__, name, _ON_USE)


def __dir__() -> list[str]:
    return __all__


def parse_policy(text: str) -> Policy:
    """A policy from its name, with options after a colon.

    >>> parse_policy("ace:truncation=0.5,gate=False")
    ACE(truncation=0.5, interval='adaptive', gate=False, stopping='stratum', min_steps=0)
    """
    name, _, rest = text.partition(":")
    if name not in _POLICIES:
        near = difflib.get_close_matches(name, POLICY_NAMES, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise GoalError(f"unknown policy {name!r}; {hint}choose from {', '.join(POLICY_NAMES)}")
    kind, fixed = _POLICIES[name]
    make: Callable[..., Policy] = import_on_use(__name__, kind, _ON_USE)
    options = dict(fixed)
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise GoalError(
                f"policy option {item!r} must read name=value, as in ace:truncation=0.5"
            )
        options[key.strip()] = _literal(value.strip())
    known = list(inspect.signature(make).parameters)
    for key in options:
        if key not in known:
            raise GoalError(f"policy {name!r} has no option {key!r}; it has {', '.join(known)}")
    return make(**options)


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text  # a bare word such as interval=end


def make_policy(policy: Policy | str | None) -> Policy:
    """A policy by its name, the default, or the given one."""
    if policy is None:
        policy = DEFAULT_POLICY
    if isinstance(policy, str):
        return parse_policy(policy)
    if not isinstance(policy, Policy):
        raise GoalError(f"policy must be a policy or its name, got {policy!r}")
    return policy
