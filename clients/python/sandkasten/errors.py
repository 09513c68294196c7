"""Errors of the daemon and the connection to it."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, Optional


class SandboxError(Exception):
    """Compare ``code``; show the message and ``hint``. A command that exits with 3 is a result, not an error."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int = 0,
        hint: str = "",
        retryable: bool = False,
        details: Optional[Dict[str, Any]] = None,
        request_id: Optional[str] = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.hint = hint
        self.retryable = retryable
        self.details = details or {}
        self.request_id = request_id

    def __str__(self) -> str:
        return f"{self.message} ({self.code}) {self.hint}".rstrip()


def from_problem(problem: Dict[str, Any], status: int, request_id: Optional[str] = None) -> SandboxError:
    """Parses an RFC 9457 problem with the fields of the daemon's error table."""
    return SandboxError(
        str(problem.get("code") or _BY_STATUS.get(status, "provider_error")),
        str(problem.get("detail") or f"The daemon responded with {status}."),
        status=int(problem.get("status") or status),
        hint=str(problem.get("hint") or ""),
        retryable=bool(problem.get("retryable", status in (429, 502, 503, 504))),
        details=problem.get("details") or {},
        request_id=problem.get("request_id") or request_id,
    )


def from_answer(status: int, body: bytes, request_id: Optional[str]) -> SandboxError:
    try:
        problem = json.loads(body)
    except ValueError:
        problem = {}
    return from_problem(problem if isinstance(problem, dict) else {}, status, request_id)


def lost(cause: BaseException) -> SandboxError:
    if isinstance(cause, ConnectionRefusedError):
        return SandboxError(
            "unavailable",
            "The daemon cannot be reached.",
            status=503,
            retryable=True,
            hint="Check url, and that the daemon runs: sandkasten up.",
        )
    # socket.timeout is TimeoutError since Python 3.10.
    if isinstance(cause, (TimeoutError, socket.timeout)):
        return SandboxError(
            "timeout",
            "The daemon did not respond in time.",
            status=504,
            hint="The request may have been carried out. Check that the daemon runs; raise timeout for a slow network.",
        )
    return SandboxError("connection_lost", "The connection to the daemon was lost.", status=502, retryable=True)


_BY_STATUS = {
    401: "unauthenticated",
    403: "forbidden",
    404: "not_found",
    409: "conflict",
    410: "gone",
    413: "too_large",
    429: "rate_limited",
    502: "unavailable",
    503: "unavailable",
    504: "timeout",
}
