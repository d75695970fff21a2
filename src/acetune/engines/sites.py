"""Which site: this machine, or a Ray cluster."""

from __future__ import annotations

from pathlib import Path

from acetune.engines.local import LocalSite
from acetune.engines.pool import Site
from acetune.engines.ray_cluster import RayCluster
from acetune.engines.settings import Settings


def make_site(cluster: RayCluster | None, code: bytes, files: Path, settings: Settings) -> Site:
    """Where the workers of a study live."""
    if cluster is None:
        return LocalSite(code, files, settings.threads, settings.devices)
    from acetune.engines.ray_site import RaySite  # imports Ray

    return RaySite(cluster, code, files, settings.threads)
