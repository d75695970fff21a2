"""Users' code for the workers of this machine: one file without a name.

Large arrays lie in it beside the pickle. Each worker maps the file into its memory and copies a
page only when it writes to it, so that all workers share what they only read.

The file is deleted before anything is written to it, and workers inherit its descriptor. So nobody
can put other code in its place, and it is gone with the last process that uses it, however that
ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

_COUNT = struct.Struct("<Q")  # of the pieces: the pickle, then the arrays
_PIECE = struct.Struct("<QQ")  # where it begins, and how long it is
_ALIGNED = 64  # as NumPy's own memory


def code_size(code: bytes, arrays: Sequence[pickle.PickleBuffer]) -> int:
    """How many bytes will be in the file, but for a few."""
    return len(code) + sum(array.raw().nbytes for array in arrays)


def write_code(path: Path, code: bytes, arrays: Sequence[pickle.PickleBuffer] = ()) -> BinaryIO:
    """Write what :func:`~acetune.interprocess.pickling.pickle_code` has made.

    ``path`` is its name for a moment. A file that has this name is deleted.
    """
    pieces = [memoryview(code), *(array.raw() for array in arrays)]
    table, place = [], _COUNT.size + _PIECE.size * len(pieces)
    for piece in pieces:
        place = -(-place // _ALIGNED) * _ALIGNED
        table.append((place, piece.nbytes))
        place += piece.nbytes
    path.unlink(missing_ok=True)
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), "w+b")
    try:
        path.unlink()
        file.write(_COUNT.pack(len(pieces)))
        for entry in table:
            file.write(_PIECE.pack(*entry))
        for (start, _), piece in zip(table, pieces, strict=True):
            file.seek(start)
            file.write(piece)
        file.flush()
    except BaseException:
        with contextlib.suppress(OSError):  # it tries once more to write what did not fit
            file.close()
        raise
    return file


def read_code(descriptor: int) -> Any:
    """Unpickle it in a worker; closes the descriptor.

    Arrays may be written to: others do not see that.
    """
    try:
        mapped = mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE)
    finally:
        os.close(descriptor)
    whole = memoryview(mapped)  # lives as long as an array that lies in it
    (count,) = _COUNT.unpack_from(whole)
    entries = (_PIECE.unpack_from(whole, _COUNT.size + _PIECE.size * n) for n in range(count))
    code, *arrays = (whole[start : start + length] for start, length in entries)
    return pickle.loads(code, buffers=arrays)
