"""What the user should know is said once."""

from __future__ import annotations

from collections.abc import Callable


class SayOnce:
    """Says something unless it, or something else about the same, was said before.

    Parameters
    ----------
    say:
        How: called with the text.

    >>> once = SayOnce(print)
    >>> once("trial 1: the check of 'gap' failed", about=("failed", "gap"))
    trial 1: the check of 'gap' failed
    >>> once("trial 2: the check of 'gap' failed", about=("failed", "gap"))
    """

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say = say
        self._said: set[object] = set()

    def __call__(self, text: str, about: object = None) -> None:
        """Say a text; ``about`` is the text itself unless told otherwise."""
        about = text if about is None else about
        if about not in self._said:
            self._said.add(about)
            self._say(text)
