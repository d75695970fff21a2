"""acetune: tuning for models that must also qualify.

Checks constraints while trials train, only when a check is worth its cost, and stops trials by
objective and violation together.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from acetune.core import errors
from acetune.core.errors import AcetuneError, TrialStopped
from acetune.core.import_on_use import import_on_use

if TYPE_CHECKING:
    from acetune.certification.share_and_mean import Mean, Share
    from acetune.core.goals import Constraint, Estimate
    from acetune.policies import (
        ACE,
        ACE2,
        ASHA,
        Adaptive,
        ASHALexicographic,
        ASHAStratum,
        Backoff,
        Bandit,
        Hyperband,
        MedianStopping,
        NoStopping,
        PerformanceCurve,
        Policy,
        TruncationSelection,
    )
    from acetune.policies.stopper import Stopper
    from acetune.run.dry_run import DryRun
    from acetune.run.study_callbacks import StudyCallback
    from acetune.run.tuning import tune
    from acetune.searchers.searcher import Searcher
    from acetune.searchers.space import choice, lograndint, loguniform, randint, uniform
    from acetune.study.result import StudyResult, load
    from acetune.trial.trial import Trial

__version__ = "0.1.0"

__all__ = [
    "ACE",
    "ACE2",
    "ASHA",
    "ASHALexicographic",
    "ASHAStratum",
    "AcetuneError",
    "Adaptive",
    "Backoff",
    "Bandit",
    "Constraint",
    "DryRun",
    "Estimate",
    "Hyperband",
    "Mean",
    "MedianStopping",
    "NoStopping",
    "PerformanceCurve",
    "Policy",
    "Searcher",
    "Share",
    "Stopper",
    "StudyCallback",
    "StudyResult",
    "Trial",
    "TrialStopped",
    "TruncationSelection",
    "choice",
    "errors",
    "load",
    "lograndint",
    "loguniform",
    "randint",
    "tune",
    "uniform",
]

# Loaded on first use, so that a worker process, which needs few of them, starts fast.
_ON_USE = {
    **dict.fromkeys(("Mean", "Share"), "acetune.certification.share_and_mean"),
    **dict.fromkeys(("Constraint", "Estimate"), "acetune.core.goals"),
    **dict.fromkeys(
        (
            "ACE",
            "ACE2",
            "ASHA",
            "ASHALexicographic",
            "ASHAStratum",
            "Adaptive",
            "Backoff",
            "Bandit",
            "Hyperband",
            "MedianStopping",
            "NoStopping",
            "PerformanceCurve",
            "Policy",
            "TruncationSelection",
        ),
        "acetune.policies",
    ),
    "Stopper": "acetune.policies.stopper",
    "DryRun": "acetune.run.dry_run",
    "StudyCallback": "acetune.run.study_callbacks",
    "tune": "acetune.run.tuning",
    "Searcher": "acetune.searchers.searcher",
    **dict.fromkeys(
        ("choice", "lograndint", "loguniform", "randint", "uniform"), "acetune.searchers.space"
    ),
    **dict.fromkeys(("StudyResult", "load"), "acetune.study.result"),
    "Trial": "acetune.trial.trial",
}
# and the homes of those who run another tuner: `import acetune` is enough for acetune.ray
_ROOMS = (
    "callbacks",
    "constraints",
    "distributed",
    "export",
    "optuna",
    "plot",
    "policies",
    "ray",
    "replay",
    "searchers",
    "testing",
    "trackers",
)


def __getattr__(name: str) -> Any:
    return import_on_use(__name__, name, _ON_USE, _ROOMS)


def __dir__() -> list[str]:
    return __all__


def _result_html(result: StudyResult) -> str:
    html: str = import_on_use(__name__, "result_html", {"result_html": "acetune.report._notebook"})(
        result
    )
    return html


def _show_results_in_notebooks() -> None:
    """A result shows itself with a picture, which its own room, that of the file, cannot draw."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None:
        html = shell.display_formatter.formatters["text/html"]
        html.for_type_by_name("acetune.study.result", "StudyResult", _result_html)


_show_results_in_notebooks()
