"""Folders over a connection, for workers that do not see the study's folder.

A folder travels as a tar, in pieces: neither end holds it in memory, and the driver attends to
other workers while it is on its way. To pack one, or unpack it, the driver copies it on its own
disk in one go, and as it is one thread, all workers wait for that long: for checkpoints of many GB
give the nodes a folder that they share.
"""

from __future__ import annotations

import contextlib
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

from acetune.core.errors import ReportError
from acetune.run._messages import Piece
from acetune.trial.artifacts import OutsideError, confined, delete_inside, write_folder

PIECE_BYTES = 1 << 20


class _Sink:
    """A file to write to that hands on what it is given."""

    def __init__(self, put: Callable[[bytes], object]) -> None:
        self._put = put

    def write(self, data: bytes) -> int:
        self._put(bytes(data))
        return len(data)


class _Source:
    """A file to read from that asks for what comes next; nothing is the end."""

    def __init__(self, take: Callable[[], bytes]) -> None:
        self._take = take

    def read(self, _size: int) -> bytes:
        return self._take()


def pack(folder: Path, put: Callable[[bytes], object]) -> None:
    """Hand a folder to ``put``, piece by piece."""
    sink = cast(IO[bytes], _Sink(put))
    # links are followed: where they lead may not exist at the other end
    with tarfile.open(fileobj=sink, mode="w|", bufsize=PIECE_BYTES, dereference=True) as tar:
        tar.add(folder, arcname=".")


def unpack(take: Callable[[], bytes], folder: Path) -> None:
    """Make a folder of the pieces that ``take`` gives; refuses names that lead out of it."""
    source = cast(IO[bytes], _Source(take))
    with tarfile.open(fileobj=source, mode="r|", bufsize=PIECE_BYTES) as tar:
        tar.extractall(folder, filter="data")


class Parcels:
    """The driver's side: folders that are on their way, one at a time for each worker."""

    def __init__(self, files: Path) -> None:
        self._files = files.resolve()
        self._coming: dict[int, IO[bytes]] = {}
        self._going: dict[int, IO[bytes]] = {}
        self._broken: dict[int, str] = {}  # why what is coming cannot be kept

    def add(self, index: int, data: bytes) -> None:
        """The next piece of what worker ``index`` sends."""
        try:
            if index not in self._coming:
                self._coming[index] = self._temporary()
            self._coming[index].write(data)
        except OSError as error:
            self._broken[index] = str(error)

    def unpack(self, index: int, path: str, digest: str | None = None) -> str | None:
        """Make the folder of what has come; returns what went wrong, if anything.

        ``digest`` is the checksum of what was sent.
        """
        try:
            target = self._inside(self._files / path)
            if index in self._broken or index not in self._coming:
                return self._broken.get(index, "nothing was sent")
            parcel = self._coming[index]
            parcel.seek(0)
            written = write_folder(
                target, lambda folder: unpack(lambda: parcel.read(PIECE_BYTES), folder), self._files
            )
            if digest is not None and written.digest != digest:
                delete_inside(self._files, target)
                return "what has come is not what was sent: its checksum is another one"
        except (OSError, tarfile.TarError, ReportError) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            self.drop(index)
        return None

    def next_piece(self, index: int, path: str | None) -> Piece:
        """A piece of what worker ``index`` fetches; ``path`` begins another folder."""
        if path is not None:
            self.drop(index)
            folder = self._inside(Path(path))
            try:
                self._going[index] = parcel = self._temporary()
                pack(folder, parcel.write)
                parcel.seek(0)
            except OSError as error:
                raise ReportError(f"cannot send {path}: {error}") from None
        elif index not in self._going:
            raise ReportError("no folder is being sent to this worker")
        return Piece(self._going[index].read(PIECE_BYTES))

    def drop(self, index: int) -> None:
        """Nothing is on its way to or from this worker."""
        self._broken.pop(index, None)
        for parcels in (self._coming, self._going):
            if index in parcels:
                with contextlib.suppress(OSError):
                    parcels.pop(index).close()

    def close(self) -> None:
        """Nothing is on its way any more."""
        for index in {*self._coming, *self._going}:
            self.drop(index)

    def _temporary(self) -> IO[bytes]:
        self._files.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cast(IO[bytes], tempfile.TemporaryFile(dir=self._files))

    def _inside(self, path: Path) -> Path:
        try:
            return confined(self._files, path)
        except OutsideError as error:
            raise ReportError(str(error)) from None


@contextlib.contextmanager
def fetched(path: str, ask: Callable[[str | None], bytes]) -> Any:
    """The worker's side: a copy of the driver's folder ``path``, deleted in the end."""
    copy = Path(tempfile.mkdtemp(prefix="acetune-"))
    asked: list[str | None] = [path]
    try:
        unpack(lambda: ask(asked.pop() if asked else None), copy)
        yield copy
    finally:
        delete_inside(copy.parent, copy)
