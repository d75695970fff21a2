"""The file with users' code: what comes out of it, who shares it, and that it has no name."""

from __future__ import annotations

import functools
import os
import pickle
import socket
import stat
import threading
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pytest

from acetune.core.errors import TrainingCodeError
from acetune.interprocess.code_file import code_size, read_code, write_code
from acetune.interprocess.pickling import pickle_code
from quick import why_slow

LARGE = np.arange(40_000, dtype="f8")


def written(folder: Path, value: object) -> tuple[BinaryIO, int]:
    """The file, and how many bytes of it are pickled."""
    arrays: list[pickle.PickleBuffer] = []
    code = pickle_code(value, arrays=arrays)
    file = write_code(folder / "code", code, arrays)
    assert os.fstat(file.fileno()).st_size >= code_size(code, arrays)
    return file, len(code)


def read(file: BinaryIO) -> Any:
    """What a worker that inherits the file makes of it."""
    return read_code(os.dup(file.fileno()))


@pytest.mark.parametrize(
    "array",
    [
        LARGE,
        LARGE.reshape(200, 200),
        LARGE.reshape(200, 200).T,  # by columns
        LARGE.reshape(200, 200)[::2],  # with gaps
        LARGE.astype(">f4"),
        np.zeros((0, 5)),
        np.ma.masked_greater(LARGE, 5.0),
        pd.DataFrame({"a": LARGE, "b": np.arange(40_000), "c": ["x", "y"] * 20_000}),
    ],
    ids=["flat", "rows", "columns", "gaps", "other-endian", "none", "masked", "frame"],
)
def test_arrays_come_out_as_they_went_in(tmp_path: Path, array: Any) -> None:
    file, _ = written(tmp_path, {"array": array, "again": array})
    with file:
        found = read(file)
    assert type(found["array"]) is type(array) and found["again"] is found["array"]
    if isinstance(array, pd.DataFrame):
        pd.testing.assert_frame_equal(found["array"], array)
    else:
        assert found["array"].dtype == array.dtype
        np.testing.assert_array_equal(found["array"], array)


@pytest.mark.parametrize("array", [LARGE, pd.DataFrame({"a": LARGE, "b": LARGE})], ids=type)
def test_large_arrays_are_not_pickled(tmp_path: Path, array: Any) -> None:
    file, pickled = written(tmp_path, lambda: array.sum())
    file.close()
    assert pickled < 10_000


def test_who_writes_to_an_array_has_a_copy(tmp_path: Path) -> None:
    kept = LARGE.copy()
    kept.flags.writeable = False
    file, _ = written(tmp_path, (LARGE, kept))
    with file:
        (one, one_kept), (other, _) = read(file), read(file)
        one[:] = -1.0
        assert other[7] == 7.0 and read(file)[0][7] == 7.0
        with pytest.raises(ValueError, match="read-only"):
            one_kept[0] = 1.0
    assert one.sum() == -40_000.0  # also once the file is closed


def test_the_file_is_private_and_has_no_name(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / "code").symlink_to(mine)
    file, _ = written(tmp_path, LARGE)
    with file:
        found = os.fstat(file.fileno())
        assert found.st_nlink == 0 and stat.S_IMODE(found.st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert mine.read_text() == "precious"


def test_a_cached_function_arrives_with_an_empty_cache() -> None:
    @functools.lru_cache(maxsize=9)
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    assert fibonacci(20) == 6765
    other = pickle.loads(pickle_code(fibonacci))
    assert other.cache_info().currsize == 0 and other.cache_parameters()["maxsize"] == 9
    assert other(30) == 832040


def test_a_cached_property_arrives_without_its_lock_and_value() -> None:
    class Data:
        calls = 0

        @functools.cached_property
        def rows(self) -> int:
            type(self).calls += 1
            return 3

    assert Data().rows == 3
    other = pickle.loads(pickle_code(Data))()
    assert (other.rows, other.rows, other.calls) == (3, 3, 2)


def test_functions_that_go_by_the_kind_of_their_argument_arrive() -> None:
    @functools.singledispatch
    def depth(value: object) -> int:
        """How deep."""
        return 0

    @depth.register
    def _(value: list) -> int:  # type: ignore[type-arg]
        return 1 + max(map(depth, value), default=0)  # it refers to itself

    class Sign:
        @functools.singledispatchmethod
        def of(self, value: object) -> int:
            return 0

        @of.register
        def _(self, value: int) -> int:
            return -value

    found, sign = pickle.loads(pickle_code((depth, Sign)))
    assert found([[3], 4]) == 2 and found("") == 0 and found.__doc__ == "How deep."
    assert found is not depth and found.dispatch(list).__globals__ is not None
    assert sign().of(3) == -3 and sign().of("") == 0
    found.register(str, lambda value: 9)
    assert found("") == 9 and depth("") == 0


def test_a_cached_function_that_workers_import_is_theirs() -> None:
    assert pickle.loads(pickle_code(why_slow)) is why_slow


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda folder: (folder / "log.txt").open("w"), "TextIOWrapper"),
        (lambda folder: threading.Lock(), "lock"),
        (lambda folder: socket.socket(), "socket"),
        (lambda folder: {"log": (folder / "log.txt").open("w")}, "dict"),
    ],
)
def test_what_cannot_be_sent_is_called_by_its_name(tmp_path: Path, make: Any, kind: str) -> None:
    data, kept = [1.0], make(tmp_path)

    def inner(trial: object) -> None:
        print(data, [kept for _ in range(2)])

    def train(trial: object) -> None:
        inner(data)

    with pytest.raises(TrainingCodeError, match=f"process: 'kept', a {kind} that inner takes"):
        pickle_code((train, data))
    if isinstance(kept, dict):
        kept["log"].close()
    elif kind != "lock":
        kept.close()


def test_a_global_that_cannot_be_sent_is_called_by_its_name() -> None:
    namespace: dict[str, Any] = {"guard": threading.Lock(), "__name__": "__main__"}
    exec("def train(trial):\n    with guard: pass", namespace)
    with pytest.raises(TrainingCodeError, match="'guard', a lock that train takes from outside"):
        pickle_code(namespace["train"])
