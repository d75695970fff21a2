"""Ready-made constraints: what a model must satisfy, and how it is checked."""
