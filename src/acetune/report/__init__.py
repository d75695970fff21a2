"""A study as a page: what it says, its figures, and the dashboard."""
