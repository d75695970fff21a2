"""Where a Ray experiment keeps its files: the one place that knows Ray's storage context."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

from pyarrow import fs

from acetune.trial.artifacts import sync_written


class Storage:
    """The storage of an experiment, or of one of its trials: a local folder, NFS, a bucket."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._files: fs.FileSystem = context.storage_filesystem

    @property
    def experiment(self) -> str:
        """The experiment, in words that driver and workers share."""
        return f"{self._files.type_name}:{self._context.experiment_fs_path}"

    @property
    def local_experiment(self) -> Path | None:
        """The experiment's folder, where that is one in the local file system."""
        if isinstance(self._files, fs.LocalFileSystem):
            return Path(self._context.experiment_fs_path)
        return None

    @property
    def working_folder(self) -> Path:
        """A folder on this machine for whatever the trial writes."""
        return Path(self._context.trial_working_directory)

    @property
    def trial_folder(self) -> str:
        """The name of the trial's folder."""
        return posixpath.basename(str(self._context.trial_fs_path))

    def keep(self, source: Path, name: str) -> None:
        """Copy a folder into the trial's own."""
        target = posixpath.join(self._context.trial_fs_path, name)
        self._files.create_dir(target, recursive=True)
        fs.copy_files(str(source), target, destination_filesystem=self._files, use_threads=False)
        if self.local_experiment is not None:  # the study file names it next
            sync_written(Path(target), self.local_experiment)

    def kept(self, name: str) -> str | None:
        """A folder of the trial, from the experiment's, where that is in the local file system."""
        return None if self.local_experiment is None else f"{self.trial_folder}/{name}"
