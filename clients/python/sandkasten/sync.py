"""The blocking client. ``sandkasten.SandboxClient`` is the same with ``await``."""

from __future__ import annotations

import base64
import uuid
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote

from .errors import SandboxError
from .events import Event, events, follow
from .http import CONNECT_TIMEOUT, GRACE_SECONDS, SILENCE_TIMEOUT, Cancel, Http
from .results import ExecResult, RunResult, result

Content = Union[str, bytes, Iterable[bytes]]
Info = Dict[str, Any]


class SandboxClient:
    """``url`` and ``api_key`` default to ``SANDKASTEN_URL`` and ``SANDKASTEN_API_KEY``.

    ``connect_timeout`` and ``timeout`` are seconds. A call fails with ``timeout`` if the daemon sends nothing for that long.
    A long call (a command, a create, a snapshot) continues while the daemon answers ``/healthz``. ``base_url`` is the old name of ``url``.
    """

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: float = SILENCE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        base_url: Optional[str] = None,
    ) -> None:
        self._http = Http(url, api_key, base_url=base_url, timeout=timeout, connect_timeout=connect_timeout)

    def create_session(
        self, *, image: Optional[str] = None, ttl_seconds: Optional[float] = None, **options: Any
    ) -> "Session":
        """Returns a running session. Further options have the API's names: ``env``, ``labels``, ``name``, ``limits``, …"""
        body = {"image": image, "ttl_seconds": ttl_seconds, **options}
        return Session(self._http, self._http.json("POST", "/v1/sessions", data=body, patient=True)["id"])

    def get_session(self, id: str) -> "Session":
        """Raises ``not_found``. Does not extend the session's lifetime."""
        session = Session(self._http, id)
        session.info()
        return session

    def list_sessions(
        self,
        *,
        status: Optional[str] = None,
        name: Optional[str] = None,
        subject: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> List[Info]:
        """All matching sessions, newest first."""
        query = {
            "status": status,
            "name": name,
            "subject": subject,
            "label": [f"{key}={value}" for key, value in (labels or {}).items()],
            "limit": 1000,
        }
        found: List[Info] = []
        cursor: Optional[str] = None
        while True:
            page = self._http.json("GET", "/v1/sessions", query={**query, "cursor": cursor})
            found += page["sessions"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return found

    def get_policy(self, project_id: str) -> Info:
        """Returns ``policy`` and ``effective``: what sessions of the project may use."""
        return self._http.json("GET", f"/v1/projects/{_segment(project_id)}/policy")

    def set_policy(self, project_id: str, policy: Mapping[str, Any]) -> Info:
        """Replaces the policy, with the API's names. Needs a key of the operator. ``{}`` removes it."""
        return self._http.json("PUT", f"/v1/projects/{_segment(project_id)}/policy", data=dict(policy))

    def delete_snapshot(self, id: str) -> bool:
        return bool(self._http.json("DELETE", f"/v1/snapshots/{_segment(id)}")["deleted"])

    def create_volume(self, name: str, *, limit_mb: Optional[int] = None) -> Info:
        """A folder that outlives sessions. Mount it with ``create_session(volumes=[{"name": …, "path": …}])``."""
        body = {"name": name, "limit_mb": limit_mb}
        created: Info = self._http.json("POST", "/v1/volumes", data=body, patient=True)
        return created

    def get_volume(self, name: str) -> Info:
        volume: Info = self._http.json("GET", f"/v1/volumes/{_segment(name)}")
        return volume

    def list_volumes(self) -> List[Info]:
        """All volumes of the project, newest first, without their sizes."""
        found: List[Info] = []
        cursor: Optional[str] = None
        while True:
            page = self._http.json("GET", "/v1/volumes", query={"limit": 1000, "cursor": cursor})
            found += page["volumes"]
            cursor = page.get("next_cursor")
            if cursor is None:
                return found

    def delete_volume(self, name: str) -> bool:
        """Raises ``conflict`` while a session, even a stopped one, mounts the volume."""
        return bool(self._http.json("DELETE", f"/v1/volumes/{_segment(name)}", patient=True)["deleted"])

    def list_secrets(self) -> List[Info]:
        """The project's secrets, without their values."""
        secrets: List[Info] = self._http.json("GET", "/v1/secrets")["secrets"]
        return secrets

    def put_secret(self, name: str, value: str, *, hosts: Optional[Sequence[str]] = None) -> Info:
        """Creates a secret, or gives it a new value, which running sessions use at once.

        ``hosts`` limits where it is sent to.
        """
        body = {"value": value, "hosts": None if hosts is None else list(hosts)}
        secret: Info = self._http.json("PUT", f"/v1/secrets/{_segment(name)}", data=body)
        return secret

    def delete_secret(self, name: str) -> bool:
        """Returns false if there is no such secret."""
        try:
            return bool(self._http.json("DELETE", f"/v1/secrets/{_segment(name)}")["deleted"])
        except SandboxError as error:
            if error.code == "not_found":
                return False
            raise

    def egress_events(self, session_id: str, **options: Any) -> Iterator[Event]:
        """What a session reached, and what it was refused. The options are those of ``Session.egress_events``."""
        return Session(self._http, session_id).egress_events(**options)

    def close(self) -> None:
        """Closes the connections. Sessions keep running."""
        self._http.close()

    def __enter__(self) -> "SandboxClient":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class Session:
    def __init__(self, http: Http, id: str) -> None:
        self._http = http
        self.id = id
        self._path = f"/v1/sessions/{_segment(id)}"

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: Any) -> None:
        """Destroys the session."""
        self.destroy()

    def exec(
        self,
        cmd: str,
        timeout_ms: Optional[int] = None,
        *,
        shell: Optional[str] = None,
        exec_id: Optional[str] = None,
        max_output_bytes: Optional[int] = None,
        _cancel: Optional[Cancel] = None,
    ) -> ExecResult:
        """Runs a command in the session's shell, which keeps directory, variables, functions and background jobs."""
        body = {
            "cmd": cmd,
            "timeout_ms": timeout_ms,
            "shell": shell,
            "exec_id": exec_id,
            "max_output_bytes": max_output_bytes,
        }
        return result(ExecResult, self._post("/exec", body, _cancel))

    def run(
        self,
        cmd: str,
        args: Sequence[str] = (),
        *,
        timeout_ms: Optional[int] = None,
        env: Optional[Mapping[str, Optional[str]]] = None,
        cwd: Optional[str] = None,
        output: Optional[str] = None,
        stdin: Union[str, bytes, None] = None,
        exec_id: Optional[str] = None,
        max_output_bytes: Optional[int] = None,
        _cancel: Optional[Cancel] = None,
    ) -> RunResult:
        """Runs a program with its arguments, without a shell. Returns stdout and stderr separately.

        With ``output="merged"``, both are one pipe: ``stdout`` has all output in its true order, and ``stderr`` is
        empty. Variables of ``env`` that are ``None`` are ignored.
        """
        body = {
            "cmd": cmd,
            "args": list(args),
            "timeout_ms": timeout_ms,
            "env": None if env is None else {name: value for name, value in env.items() if value is not None},
            "cwd": cwd,
            "output": output,
            "stdin_base64": None if stdin is None else base64.b64encode(_encoded(stdin)).decode(),
            "exec_id": exec_id,
            "max_output_bytes": max_output_bytes,
        }
        # A program does not wait for others, so its timeout bounds the whole call. A shell command may wait for an earlier one.
        deadline = None if timeout_ms is None else timeout_ms / 1000 + GRACE_SECONDS
        return result(RunResult, self._post("/run", body, _cancel, deadline))

    def stream(self, cmd: str, timeout_ms: Optional[int] = None, *, shell: Optional[str] = None) -> Iterator[Event]:
        """Like ``exec``, but streams: events ``output`` with ``text`` or ``base64``, and finally ``exit``."""
        exec_id = uuid.uuid4().hex
        body = {"cmd": cmd, "timeout_ms": timeout_ms, "shell": shell, "exec_id": exec_id, "stream": True}
        path = f"{self._path}/execs/{exec_id}"
        return follow(
            lambda: self._http.chunks("POST", f"{self._path}/exec", data=body),
            lambda after: self._http.chunks("GET", f"{path}/output", query={"after": after}),
            lambda: str(self._http.json("GET", path)["status"]),
        )

    def write(self, path: str, content: Content, *, mode: Optional[int] = None) -> None:
        """Creates parent folders and writes atomically. An iterable of bytes is streamed."""
        body = _encoded(content) if isinstance(content, (str, bytes)) else content
        query = {"path": path, "mode": None if mode is None else format(mode, "o")}
        self._http.json("PUT", f"{self._path}/files", query=query, body=body)

    def read(self, path: str, max_bytes: Optional[int] = None) -> bytes:
        """Returns the whole file, or its first ``max_bytes``."""
        if max_bytes is not None and max_bytes <= 0:
            self.stat(path)
            return b""
        headers = {} if max_bytes is None else {"Range": f"bytes=0-{max_bytes - 1}"}
        try:
            return b"".join(self._http.chunks("GET", f"{self._path}/files", query={"path": path}, headers=headers))
        except SandboxError as error:
            # A range of an empty file.
            if max_bytes is not None and error.code == "invalid_argument" and error.details.get("size") == 0:
                return b""
            raise

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """Streams a file of any size."""
        return self._http.chunks("GET", f"{self._path}/files", query={"path": path})

    def list(self, path: str = ".", *, recursive: bool = False) -> List[Info]:
        query = {"path": path, "recursive": recursive}
        entries: List[Info] = self._http.json("GET", f"{self._path}/files/list", query=query)["entries"]
        return entries

    def stat(self, path: str) -> Info:
        return self._http.json("GET", f"{self._path}/files/stat", query={"path": path})

    def mkdir(self, path: str) -> None:
        self._post("/files/mkdir", {"path": path, "recursive": True})

    def move(self, source: str, target: str) -> None:
        self._post("/files/move", {"from": source, "to": target})

    def remove(self, path: str, *, recursive: bool = False) -> None:
        self._http.json("DELETE", f"{self._path}/files", query={"path": path, "recursive": recursive})

    def info(self) -> Info:
        return self._http.json("GET", self._path)

    def start(self) -> Info:
        return self._post("/start", {})

    def stop(self) -> Info:
        """Ends all processes and keeps the disk."""
        return self._post("/stop", {})

    def pause(self) -> Info:
        return self._post("/pause", {})

    def resume(self) -> Info:
        return self._post("/resume", {})

    def extend(self, ttl_seconds: float) -> Info:
        """The session lives at least this long from now. Never shortens its lifetime."""
        return self._post("/extend", {"ttl_seconds": ttl_seconds})

    def set_network(self, network: Union[str, Mapping[str, Any]]) -> Info:
        """Replaces the whole network: ``"none"``, ``"open"`` or a policy such as ``{"allow": ["github.com"]}``."""
        data = network if isinstance(network, str) else dict(network)
        return self._http.json("PUT", f"{self._path}/network", data=data, patient=True)

    def egress_events(
        self,
        *,
        after: Optional[int] = None,
        verdict: Optional[str] = None,
        limit: Optional[int] = None,
        follow: bool = False,
    ) -> Iterator[Event]:
        """What the session reached, and what it was refused, oldest first. ``follow`` keeps waiting for new events."""
        path, left = f"{self._path}/egress", limit
        while left is None or left > 0:
            size = 1000 if left is None else min(left, 1000)
            page = self._http.json("GET", path, query={"after": after, "verdict": verdict, "limit": size})
            yield from page["events"][:size]
            left = None if left is None else left - len(page["events"])
            more = page.get("next") is not None and page["next"] != after
            after = page["next"] if more else after
            if page["events"] and more:
                continue
            if not follow:
                return
            query = {"after": after, "verdict": verdict, "follow": True}
            for event in events(self._http.chunks("GET", path, query=query)):
                if left is not None and left <= 0:
                    return
                # The name of the server-sent event; the verdict says the same.
                del event["event"]
                yield event
                left = None if left is None else left - 1
            return

    def snapshot(self, name: Optional[str] = None) -> Info:
        return self._post("/snapshots", {"name": name})

    def destroy(self) -> bool:
        """Deletes the session and its disk. Returns false if it had already ended."""
        return bool(self._http.json("DELETE", self._path, patient=True)["destroyed"])

    def _post(
        self,
        route: str,
        data: Mapping[str, Any],
        cancel: Optional[Cancel] = None,
        deadline: Optional[float] = None,
    ) -> Any:
        path = f"{self._path}{route}"
        return self._http.json("POST", path, data=dict(data), cancel=cancel, patient=True, deadline=deadline)


def _encoded(content: Union[str, bytes]) -> bytes:
    return content.encode() if isinstance(content, str) else content


def _segment(text: str) -> str:
    if text in ("", ".", ".."):
        raise SandboxError("not_found", f"{text!r} is not an id.", status=404)
    return quote(text, safe="")
