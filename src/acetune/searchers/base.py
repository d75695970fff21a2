"""What a searcher must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from acetune.core.outcome import Outcome


class Searcher(ABC):
    """Suggests configurations by ask and tell; losses are minimised, violations are 0 when met.

    A searcher needs no persistence: a resumed study tells it again, through :meth:`add`, of every
    trial that has ended.
    """

    @abstractmethod
    def ask(self, trial: int) -> dict[str, Any]:
        """A configuration of the searched dimensions for the trial with this number."""

    @abstractmethod
    def tell(self, trial: int, outcome: Outcome) -> None:
        """How a trial that was asked for ended. Called once a trial."""

    @abstractmethod
    def add(self, trial: int, params: Mapping[str, Any], outcome: Outcome | None) -> None:
        """A trial from an earlier session; ``outcome`` is None if it will be trained again."""
