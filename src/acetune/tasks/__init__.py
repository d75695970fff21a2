"""Ready tasks: real training under a real limit, for the demo and for experiments."""
