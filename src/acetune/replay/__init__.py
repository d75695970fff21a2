"""Recorded learning curves, and policies side by side on them on a simulated clock."""
