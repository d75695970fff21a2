"""Ready tasks."""
