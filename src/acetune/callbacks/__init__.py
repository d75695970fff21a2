"""Callbacks that report a framework's training to a trial: one module a framework."""
