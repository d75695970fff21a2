"""The live page of a study: the report, served to a browser while the study runs.

Read-only: the study file is opened for reading, and only GET and HEAD are answered. It listens on
this machine alone unless a token is asked for (:mod:`acetune.dashboard.access`).
"""

from __future__ import annotations

from acetune.core.errors import MissingExtraError

try:
    import starlette as _starlette  # noqa: F401
    import uvicorn as _uvicorn  # noqa: F401
except ImportError:
    raise MissingExtraError("starlette or uvicorn", "dashboard") from None

from acetune.dashboard.server import Address, DashboardServer

__all__ = ["Address", "DashboardServer"]
