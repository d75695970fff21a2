"""Pictures of comparisons, as Plotly figures: a kind a file."""

from acetune.replay.figures.case_study import TrialCurve, case_study
from acetune.replay.figures.dots import dots
from acetune.replay.figures.expected_cost import expected_cost
from acetune.replay.figures.over_time import over_time
from acetune.replay.figures.rank_axis import critical_difference
from acetune.replay.figures.regret_lines import regret_by_ratio
from acetune.replay.figures.regret_strips import regret_strips
from acetune.replay.figures.success import success_rates
from acetune.replay.figures.truncation import truncation_curve

__all__ = [
    "TrialCurve",
    "case_study",
    "critical_difference",
    "dots",
    "expected_cost",
    "over_time",
    "regret_by_ratio",
    "regret_strips",
    "success_rates",
    "truncation_curve",
]
