"""Colours and letters that all pictures share."""

from __future__ import annotations

# Okabe and Ito's, without their yellow, which is hard to see on white, and with a grey
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#7F7F7F",
)

FONT = "Arial, Liberation Sans, Helvetica, sans-serif"
TEXT = "#222222"
QUIET = "#666666"
LINE = "#9A9A9A"
GRID = "#E8E8E8"


def faint(colour: str, alpha: float) -> str:
    """A colour, see-through."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha:g})"
