"""Which site: this machine, or a Ray cluster."""

from __future__ import annotations

from pathlib import Path

from acetune.run.local_workers import LocalSite
from acetune.run.pool import Site
from acetune.run.ray_cluster import RayCluster
from acetune.run.settings import Settings


def make_site(cluster: RayCluster | None, code: bytes, files: Path, settings: Settings) -> Site:
    """Where the workers of a study live."""
    if cluster is None:
        return LocalSite(code, files, settings.threads, settings.devices)
    from acetune.run.ray_workers import RaySite  # imports Ray

    return RaySite(cluster, code, files, settings.threads)
