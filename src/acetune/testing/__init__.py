"""Checks for policies, searchers, constraints and callbacks of one's own.

Plain functions that raise :class:`AssertionError` with a message that says what is wrong. They need
no test framework: call them in a test, or in a notebook. acetune's own parts pass them too::

    from acetune.testing import check_policy

    def test_my_policy():
        check_policy(MyPolicy(share=0.5))
"""

from __future__ import annotations

from acetune.testing._callbacks import check_callback, check_study_callback
from acetune.testing._constraints import check_constraint
from acetune.testing._policies import check_policy
from acetune.testing._searchers import check_searcher

__all__ = [
    "check_callback",
    "check_constraint",
    "check_policy",
    "check_searcher",
    "check_study_callback",
]
