"""A study as a page: its numbers as columns, what they say, and how it is drawn."""
