"""What pictures have in common: colours, and how figures come to disk."""

from acetune.drawing.writing import IMAGES, write_figure, write_figures

__all__ = ["IMAGES", "write_figure", "write_figures"]
