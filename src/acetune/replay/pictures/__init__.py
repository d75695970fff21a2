"""Pictures of comparisons, as Plotly figures: a kind a file."""

from acetune.replay.pictures._rank_axis import critical_difference
from acetune.replay.pictures.dots import dots
from acetune.replay.pictures.over_time import over_time

__all__ = ["critical_difference", "dots", "over_time"]
