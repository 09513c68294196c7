"""Requests to the daemon. Each is sent once, on a new or an idle connection."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union
from urllib.parse import urlencode, urlsplit

from .errors import SandboxError, from_answer, lost

Body = Union[bytes, Iterable[bytes], None]

# Seconds. After SILENCE_TIMEOUT without data, the daemon is probed, or the request fails.
CONNECT_TIMEOUT = 10.0
SILENCE_TIMEOUT = 60.0
# Added to a command's own timeout: the daemon has to end it, collect its output and respond.
GRACE_SECONDS = 30.0

# The daemon closes idle connections after 72 seconds, so older ones are not reused.
IDLE_SECONDS = 60.0


class Cancel:
    """Cancels a request from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection: Optional[HTTPConnection] = None
        self.cancelled = False

    def holds(self, connection: Optional[HTTPConnection]) -> None:
        with self._lock:
            self._connection = connection
            if self.cancelled and connection is not None:
                _shut(connection)

    def __call__(self) -> None:
        with self._lock:
            self.cancelled = True
            if self._connection is not None:
                _shut(self._connection)


class Http:
    def __init__(
        self,
        url: Optional[str],
        api_key: Optional[str],
        *,
        base_url: Optional[str] = None,
        timeout: float = SILENCE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
    ) -> None:
        if url and base_url and url != base_url:
            raise SandboxError(
                "invalid_argument", "url and base_url have different values.", hint="Pass url alone."
            )
        url = url or base_url or os.environ.get("SANDKASTEN_URL") or ""
        key = api_key or os.environ.get("SANDKASTEN_API_KEY") or ""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SandboxError(
                "invalid_argument",
                "The daemon's URL must begin with http:// or https://.",
                hint="Pass url, or set SANDKASTEN_URL.",
            )
        if not key:
            raise SandboxError(
                "invalid_argument", "An API key is required.", hint="Pass api_key, or set SANDKASTEN_API_KEY."
            )
        for name, seconds in (("timeout", timeout), ("connect_timeout", connect_timeout)):
            if not isinstance(seconds, (int, float)) or not 0 < seconds <= 86400:
                raise SandboxError("invalid_argument", f"{name} must be a number of seconds above 0.")
        self._timeout, self._connect_timeout = float(timeout), float(connect_timeout)
        self._host, self._port, self._scheme = parts.hostname, parts.port, parts.scheme
        self._prefix = parts.path.rstrip("/")
        self._key = key
        self._lock = threading.Lock()
        self._idle: List[Tuple[HTTPConnection, float]] = []

    def json(self, method: str, path: str, **options: Any) -> Any:
        answer = self.bytes(method, path, **options)
        return json.loads(answer) if answer else None

    def bytes(self, method: str, path: str, **options: Any) -> bytes:
        connection, response = self._request(method, path, **options)
        try:
            data = response.read()
        except (OSError, HTTPException) as cause:
            connection.close()
            raise lost(cause) from cause
        finally:
            _release(options.get("cancel"))
        self._done(connection, response)
        return data

    def chunks(self, method: str, path: str, **options: Any) -> Iterator[bytes]:
        """Yields the body as it arrives. Leaving the loop closes the connection."""
        connection, response = self._request(method, path, **options)
        return self._chunks(connection, response, options.get("cancel"))

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _chunks(
        self, connection: HTTPConnection, response: HTTPResponse, cancel: Optional[Cancel]
    ) -> Iterator[bytes]:
        whole = False
        try:
            while True:
                data = response.read1(65536)
                if not data:
                    # A truncated body ends without an error here.
                    if response.length:
                        raise lost(ConnectionError("The response was truncated."))
                    whole = True
                    return
                yield data
        except (OSError, HTTPException) as cause:
            raise lost(cause) from cause
        finally:
            _release(cancel)
            if whole:
                self._done(connection, response)
            else:
                connection.close()

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Body = None,
        data: Any = None,
        headers: Optional[Mapping[str, str]] = None,
        cancel: Optional[Cancel] = None,
        patient: bool = False,
        deadline: Optional[float] = None,
    ) -> Tuple[HTTPConnection, HTTPResponse]:
        """``patient``: the response may take long; silence is accepted while the daemon answers a probe. ``deadline``: seconds in total."""
        sent: Dict[str, str] = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        if data is not None:
            body = json.dumps(_given(data)).encode()
            sent["Content-Type"] = "application/json"
        elif body is not None:
            sent["Content-Type"] = "application/octet-stream"
        target = f"{self._prefix}{path}{_search(query)}"
        connection = self._connection()
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(self._timeout)
            if cancel is not None:
                cancel.holds(connection)
            connection.request(method, target, body=body, headers=sent, encode_chunked=_streams(body))
            if patient:
                self._await_answer(connection, deadline)
            response = connection.getresponse()
            if response.status < 400:
                return connection, response
            problem = response.read()
        except (OSError, HTTPException) as cause:
            connection.close()
            _release(cancel)
            raise lost(cause) from cause
        _release(cancel)
        self._done(connection, response)
        raise from_answer(response.status, problem, response.getheader("x-request-id"))

    def _connection(self) -> HTTPConnection:
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if time.monotonic() - since < IDLE_SECONDS:
                    return connection
                connection.close()
        make: Callable[..., HTTPConnection] = HTTPSConnection if self._scheme == "https" else HTTPConnection
        return make(self._host, self._port, timeout=self._connect_timeout)

    def _await_answer(self, connection: HTTPConnection, deadline: Optional[float]) -> None:
        """Waits for the response. Raises ``TimeoutError`` if the daemon is unreachable or the deadline has passed."""
        end = None if deadline is None else time.monotonic() + deadline
        while True:
            left = self._timeout if end is None else min(self._timeout, end - time.monotonic())
            if left <= 0:
                raise TimeoutError("The deadline of the command has passed.")
            # Nothing was read yet, so no buffer can hold data. A cancelled request is readable: end-of-file.
            if _readable(connection.sock, left):
                return
            if end is None or time.monotonic() < end:
                self._probe()

    def _probe(self) -> None:
        """Probes the daemon on a separate connection."""
        make: Callable[..., HTTPConnection] = HTTPSConnection if self._scheme == "https" else HTTPConnection
        connection = make(self._host, self._port, timeout=min(self._timeout, self._connect_timeout))
        try:
            connection.request("GET", f"{self._prefix}/healthz")
            connection.getresponse().read()
        finally:
            connection.close()

    def _done(self, connection: HTTPConnection, response: HTTPResponse) -> None:
        if response.will_close or not response.isclosed():
            connection.close()
            return
        with self._lock:
            self._idle.append((connection, time.monotonic()))


def _release(cancel: Optional[Cancel]) -> None:
    if cancel is not None:
        cancel.holds(None)


def _shut(connection: HTTPConnection) -> None:
    if connection.sock is not None:
        try:
            connection.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _readable(sock: socket.socket, seconds: float) -> bool:
    if hasattr(select, "poll"):  # select() does not support descriptors above 1023.
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    return bool(select.select([sock], [], [], seconds)[0])


def _streams(body: Body) -> bool:
    return body is not None and not isinstance(body, bytes)


def _given(data: Any) -> Any:
    """Omits options without a value."""
    return {name: value for name, value in data.items() if value is not None} if isinstance(data, dict) else data


def _search(query: Optional[Mapping[str, Any]]) -> str:
    given = [(name, _text(value)) for name, value in (query or {}).items() if value is not None]
    pairs = [(name, one) for name, value in given for one in (value if isinstance(value, list) else [value])]
    return f"?{urlencode(pairs)}" if pairs else ""


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
