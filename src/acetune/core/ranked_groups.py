"""Ordered groups of reports: a rank is a binary search."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sortedcontainers import SortedList

GroupId: TypeAlias = Hashable
Key: TypeAlias = float | tuple[float, float]

_SMALL = 8000  # up to here a plain list is quicker than a SortedList


@dataclass(slots=True)
class Filing:
    """Where a report is ranked: a group, and the key it is ordered by (smaller is better)."""

    group: GroupId
    key: Key


def median_of(numbers: Sequence[float]) -> float:
    """The median of numbers that are in order; two index look-ups.

    >>> median_of([1.0, 2.0, 4.0]), median_of([1.0, 2.0])
    (2.0, 1.5)
    """
    middle = len(numbers) // 2
    if len(numbers) % 2:
        return float(numbers[middle])
    return float(numbers[middle - 1] / 2 + numbers[middle] / 2)  # their sum might overflow


class Group:
    """The keys of all reports that are compared with each other, in order."""

    __slots__ = ("id", "keys")

    def __init__(self, group_id: GroupId) -> None:
        self.id = group_id
        self.keys: Any = []  # of Key, best first: a list, and a SortedList once it is long

    def __len__(self) -> int:
        return len(self.keys)

    def better_than(self, key: Key) -> int:
        """How many are strictly better than ``key``."""
        keys = self.keys
        if type(keys) is list:
            return bisect_left(keys, key)
        return keys.bisect_left(key)  # type: ignore[no-any-return]

    def copy(self) -> Group:
        """The same reports, apart from this group."""
        other = Group(self.id)
        other.keys = self.keys.copy()
        return other

    def add(self, key: Key) -> None:
        """One more report."""
        keys = self.keys
        if type(keys) is not list:
            keys.add(key)
            return
        insort(keys, key)
        if len(keys) > _SMALL:
            self.keys = SortedList(keys)

    def remove(self, key: Key) -> None:
        """Take a report out again."""
        keys = self.keys
        if type(keys) is list:
            del keys[bisect_left(keys, key)]
        else:
            keys.remove(key)
