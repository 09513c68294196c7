"""Stateful sandboxes over HTTP: a thin client of the Sandkasten daemon."""

from .aio import SandboxClient, Session
from .errors import SandboxError
from .events import output_bytes
from .results import ExecResult, RunResult

__all__ = ["ExecResult", "RunResult", "SandboxClient", "SandboxError", "Session", "output_bytes"]
__version__ = "0.1.0"
