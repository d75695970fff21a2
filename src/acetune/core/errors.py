"""Every error acetune raises on purpose.

The tree (catch :class:`AcetuneError` for all of it)::

    AcetuneError
    ├── GoalError            objective, constraint or option that makes no sense   (ValueError too)
    ├── SpaceError           search space that makes no sense                      (ValueError too)
    ├── ReportError          a report that cannot be taken: step, name or type     (ValueError too)
    │   ├── ReportCallError      such a call is wrong in every trial: the code has to change
    │   ├── BrokenModelError     a model that was kept is missing, empty or changed
    │   └── DegenerateModelError a check refuses a model that answers nearly always the same
    ├── TrainingCodeError    the training function cannot be sent to a worker
    ├── SearchError          the searcher cannot suggest anything
    ├── StudyError           the study as a whole cannot go on
    │   ├── StudyFileError       unreadable, damaged, newer or foreign study file
    │   ├── StudyLockedError     another process is running this study
    │   └── StudyChangedError    goals, space, policy or a check differ from the study file
    ├── TableError           a curve table that makes no sense, or its file        (ValueError too)
    └── MissingExtraError    an optional package is not installed                  (ImportError too)

:class:`TrialStopped` stands apart: it is a ``BaseException``, so that a training function's own
``except Exception`` cannot swallow it. :class:`GoalWarning` is a ``UserWarning``.
"""

from __future__ import annotations


class AcetuneError(Exception):
    """Base class of the errors of this package."""


class GoalError(AcetuneError, ValueError):
    """An objective, a constraint or an option makes no sense."""


class SpaceError(AcetuneError, ValueError):
    """The search space, or a point given in it, makes no sense."""


class ReportError(AcetuneError, ValueError):
    """A report cannot be taken: a wrong step, an unknown name, a value that is no number."""


class ReportCallError(ReportError):
    """A call of ``report`` that no trial can make: the objective, a check or a model is missing."""


class BrokenModelError(ReportError):
    """A model that was kept is missing, empty, or not what was written."""


class DegenerateModelError(ReportError):
    """A model answers nearly always the same, and its check was told to fail such models."""


class TrainingCodeError(AcetuneError):
    """The training function, or a check, cannot be sent to a worker process."""


class SearchError(AcetuneError):
    """The searcher cannot suggest a configuration."""


class StudyError(AcetuneError):
    """The study as a whole cannot go on."""


class StudyFileError(StudyError):
    """The study file cannot be read: damaged, newer than this version, or something else."""


class StudyLockedError(StudyError):
    """Another process is running this study."""


class StudyChangedError(StudyError):
    """The goals, the space, the policy or a check differ from those in the study file."""


class TableError(AcetuneError, ValueError):
    """A table of recorded curves makes no sense, or its file cannot be read or written."""


class MissingExtraError(AcetuneError, ImportError):
    """An optional package is not installed; the message names the install command."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f"{package} is not installed. Install it with:  pip install 'acetune[{extra}]'  "
            f"(in the source folder:  pip install '.[{extra}]')"
        )


class GoalWarning(UserWarning):
    """A limit, or what its check is given, is probably not what was meant."""


class TrialStopped(BaseException):
    """Raised by ``Trial.report`` only when it is called again after the trial was told to stop.

    Loops over ``trial.steps(...)`` and loops that look at ``trial.should_stop`` never see it.
    """
