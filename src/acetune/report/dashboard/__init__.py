"""The live page of a study: the report, served to a browser while the study runs.

Read-only: the study file is opened for reading, and only GET and HEAD are answered. It listens on
this machine alone unless a token is asked for (:mod:`acetune.report.dashboard._access`).
"""

from __future__ import annotations

from acetune.core.errors import MissingExtraError

try:
    from acetune.report.dashboard._server import Address, DashboardServer
except ModuleNotFoundError as error:
    if error.name not in ("starlette", "uvicorn"):
        raise
    raise MissingExtraError(error.name, "dashboard") from None

__all__ = ["Address", "DashboardServer"]
