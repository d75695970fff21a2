"""What the page on Optuna says of the storage is what is written there."""

from __future__ import annotations

from pathlib import Path

from acetune.optuna import _attributes as attributes

DOCUMENT = (Path(__file__).parents[2] / "docs" / "optuna.md").read_text()


def test_every_attribute_written_is_in_the_document() -> None:
    for key in (attributes.START, attributes.CHECK, attributes.END, attributes.GOALS):
        assert f"`{key}" in DOCUMENT
