"""Folders that travel in pieces, and what the driver does not let itself be sent."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from acetune.core.errors import ReportError
from acetune.run._transfer import PIECE_BYTES, Parcels, fetched, pack


@pytest.fixture
def parcels(tmp_path: Path) -> Iterator[Parcels]:
    (tmp_path / "files").mkdir()
    opened = Parcels(tmp_path / "files")
    yield opened
    opened.close()


def contents(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    (made / "deep" / "empty").mkdir(parents=True)
    (made / "deep" / "large").write_bytes(bytes(range(256)) * 10_000)
    (made / "nothing").touch()
    (tmp_path / "outside").write_text("followed")
    (made / "link").symlink_to(tmp_path / "outside")
    return made


def test_there_and_back(parcels: Parcels, folder: Path, tmp_path: Path) -> None:
    pieces: list[bytes] = []
    pack(folder, pieces.append)
    assert len(pieces) == 3 and max(map(len, pieces)) == PIECE_BYTES
    for piece in pieces:
        parcels.add(7, piece)
    assert parcels.unpack(7, "trial-00001/attempt-1/model-0000001") is None
    arrived = tmp_path / "files" / "trial-00001" / "attempt-1" / "model-0000001"
    assert contents(arrived) == contents(folder)

    with fetched(str(arrived), lambda path: parcels.next_piece(7, path).data) as copy:
        assert contents(copy) == contents(folder)
    assert not copy.exists()


@pytest.mark.parametrize("path", ["../elsewhere", "/tmp/elsewhere", "a/../../b", "."])
def test_paths_that_lead_out_of_the_folder(parcels: Parcels, folder: Path, path: str) -> None:
    pack(folder, lambda piece: parcels.add(1, piece))
    assert "is not in" in (parcels.unpack(1, path) or "")
    with pytest.raises(ReportError, match="is not in"):
        parcels.next_piece(1, str(folder / path))


@pytest.mark.parametrize("name", ["../evil", "/tmp/acetune-evil", "link"])
def test_names_in_the_tar_that_lead_out_of_the_folder(
    parcels: Parcels, tmp_path: Path, name: str
) -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        entry = tarfile.TarInfo(name)
        if name == "link":
            entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(entry)
    parcels.add(1, made.getvalue())
    target = tmp_path / "files" / "model"
    error = parcels.unpack(1, "model")
    if name == "/tmp/acetune-evil":  # taken as relative
        assert error is None and contents(target).keys() == {"tmp", "tmp/acetune-evil"}
    else:
        assert error is not None and "Error" in error
        assert not target.exists()
    assert not (tmp_path / "files" / "evil").exists()
    assert not Path("/tmp/acetune-evil").exists()


def test_what_is_damaged_or_was_never_sent(parcels: Parcels, tmp_path: Path) -> None:
    parcels.add(1, b"this is no tar")
    assert parcels.unpack(1, "model") is not None
    with pytest.raises(ReportError, match="no folder is being sent"):
        parcels.next_piece(1, None)
    with pytest.raises(ReportError, match="cannot send"):
        parcels.next_piece(1, str(tmp_path / "files" / "gone"))
    assert not list((tmp_path / "files").iterdir())
