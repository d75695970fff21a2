"""What a training function sees: its trial, the link to an engine, checks and kept files."""
