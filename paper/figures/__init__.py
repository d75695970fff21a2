"""The figures of the paper alone, as Plotly figures: a kind a file."""

from paper.figures.case_study import TrialCurve, case_study
from paper.figures.expected_cost import expected_cost
from paper.figures.success import success_rates
from paper.figures.truncation import truncation_curve

__all__ = ["TrialCurve", "case_study", "expected_cost", "success_rates", "truncation_curve"]
