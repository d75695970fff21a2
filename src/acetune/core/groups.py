"""Ordered groups of reports: a rank is a binary search."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple, TypeAlias

from sortedcontainers import SortedList

GroupId: TypeAlias = Hashable
Key: TypeAlias = float | tuple[float, float]


class Filing(NamedTuple):
    """Where a report is ranked: a group, and the key it is ordered by (smaller is better)."""

    group: GroupId
    key: Key


class Group:
    """The keys of all reports that are compared with each other, in order."""

    __slots__ = ("id", "keys")

    def __init__(self, group_id: GroupId) -> None:
        self.id = group_id
        self.keys: Any = SortedList()  # of Key; sortedcontainers is untyped

    def __len__(self) -> int:
        return len(self.keys)

    def better_than(self, key: Key) -> int:
        """How many are strictly better than ``key``."""
        return self.keys.bisect_left(key)  # type: ignore[no-any-return]
