"""Faults on purpose: kills, freezes, damaged files, hostile training code, wrong calls.

A campaign that is never finished: ``python -m tools.chaos`` goes on where it was, as long as it is
let. It consists of parts, each a module of this package with a ``PART``; a part consists of
rounds, each of which is made from its number and a seed alone, tries something and says what it
found. What was found lies in ``.chaos/``, one file per part with a line per round;
``python -m tools.chaos --page`` writes it to docs/testing.md.
"""
