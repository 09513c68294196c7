"""The client for asyncio. Calls run in threads, so that the standard library suffices."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, AsyncIterator, Callable, Iterator, List, Mapping, Optional, Sequence, TypeVar, Union

from . import sync
from .events import Event
from .http import CONNECT_TIMEOUT, SILENCE_TIMEOUT, Cancel
from .results import ExecResult, RunResult

T = TypeVar("T")
_END: Any = object()


class _Threads:
    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="sandkasten")

    async def call(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(work, *args, **options))

    async def cancellable(self, work: Callable[..., T], *args: Any, **options: Any) -> T:
        """Cancelling the task ends the request, and with it the command."""
        cancel = Cancel()
        try:
            return await self.call(work, *args, _cancel=cancel, **options)
        except asyncio.CancelledError:
            cancel()
            raise

    async def each(self, items: Iterator[T]) -> AsyncIterator[T]:
        try:
            while True:
                item = await self.call(next, items, _END)
                if item is _END:
                    return
                yield item
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                self._pool.submit(_quietly, close)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class SandboxClient:
    """``url`` and ``api_key`` default to ``SANDKASTEN_URL`` and ``SANDKASTEN_API_KEY``. Timeouts are as in ``sandkasten.sync``."""

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: float = SILENCE_TIMEOUT,
        connect_timeout: float = CONNECT_TIMEOUT,
        max_waiting: int = 64,
        base_url: Optional[str] = None,
    ) -> None:
        self._sync = sync.SandboxClient(
            url, api_key, timeout=timeout, connect_timeout=connect_timeout, base_url=base_url
        )
        self._threads = _Threads(max_waiting)

    async def create_session(
        self, *, image: Optional[str] = None, ttl_seconds: Optional[float] = None, **options: Any
    ) -> "Session":
        """Returns a running session. Further options have the API's names: ``env``, ``labels``, ``name``, ``limits``, …"""
        create = self._sync.create_session
        made = await self._threads.call(create, image=image, ttl_seconds=ttl_seconds, **options)
        return Session(made, self._threads)

    async def get_session(self, id: str) -> "Session":
        return Session(await self._threads.call(self._sync.get_session, id), self._threads)

    async def list_sessions(
        self,
        *,
        status: Optional[str] = None,
        name: Optional[str] = None,
        subject: Optional[str] = None,
        labels: Optional[Mapping[str, str]] = None,
    ) -> List[sync.Info]:
        return await self._threads.call(
            self._sync.list_sessions, status=status, name=name, subject=subject, labels=labels
        )

    async def get_policy(self, project_id: str) -> sync.Info:
        """Returns ``policy`` and ``effective``: what sessions of the project may use."""
        return await self._threads.call(self._sync.get_policy, project_id)

    async def set_policy(self, project_id: str, policy: Mapping[str, Any]) -> sync.Info:
        """Replaces the policy, with the API's names. Needs a key of the operator. ``{}`` removes it."""
        return await self._threads.call(self._sync.set_policy, project_id, policy)

    async def delete_snapshot(self, id: str) -> bool:
        return await self._threads.call(self._sync.delete_snapshot, id)

    async def create_volume(self, name: str, *, limit_mb: Optional[int] = None) -> sync.Info:
        return await self._threads.call(self._sync.create_volume, name, limit_mb=limit_mb)

    async def get_volume(self, name: str) -> sync.Info:
        return await self._threads.call(self._sync.get_volume, name)

    async def list_volumes(self) -> List[sync.Info]:
        return await self._threads.call(self._sync.list_volumes)

    async def delete_volume(self, name: str) -> bool:
        return await self._threads.call(self._sync.delete_volume, name)

    async def list_secrets(self) -> List[sync.Info]:
        return await self._threads.call(self._sync.list_secrets)

    async def put_secret(self, name: str, value: str, *, hosts: Optional[Sequence[str]] = None) -> sync.Info:
        return await self._threads.call(self._sync.put_secret, name, value, hosts=hosts)

    async def delete_secret(self, name: str) -> bool:
        return await self._threads.call(self._sync.delete_secret, name)

    def egress_events(self, session_id: str, **options: Any) -> AsyncIterator[Event]:
        return self._threads.each(_later(lambda: self._sync.egress_events(session_id, **options)))

    async def close(self) -> None:
        """Closes connections and threads. Sessions keep running."""
        self._sync.close()
        self._threads.close()

    async def __aenter__(self) -> "SandboxClient":
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.close()


class Session:
    def __init__(self, session: sync.Session, threads: _Threads) -> None:
        self._sync = session
        self._threads = threads
        self.id = session.id

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: Any) -> None:
        """Destroys the session."""
        await self.destroy()

    async def exec(self, cmd: str, timeout_ms: Optional[int] = None, **options: Any) -> ExecResult:
        """Runs a command in the session's shell, which keeps directory, variables, functions and background jobs."""
        return await self._threads.cancellable(self._sync.exec, cmd, timeout_ms, **options)

    async def run(self, cmd: str, args: Sequence[str] = (), **options: Any) -> RunResult:
        """Runs a program with its arguments, without a shell. Returns stdout and stderr separately."""
        return await self._threads.cancellable(self._sync.run, cmd, args, **options)

    def stream(
        self, cmd: str, timeout_ms: Optional[int] = None, *, shell: Optional[str] = None
    ) -> AsyncIterator[Event]:
        """Like ``exec``, but streams the output and resumes after a lost connection."""
        return self._threads.each(self._sync.stream(cmd, timeout_ms, shell=shell))

    async def write(self, path: str, content: sync.Content, *, mode: Optional[int] = None) -> None:
        await self._threads.call(self._sync.write, path, content, mode=mode)

    async def read(self, path: str, max_bytes: Optional[int] = None) -> bytes:
        return await self._threads.call(self._sync.read, path, max_bytes)

    def read_chunks(self, path: str) -> AsyncIterator[bytes]:
        return self._threads.each(_later(lambda: self._sync.read_chunks(path)))

    async def list(self, path: str = ".", *, recursive: bool = False) -> List[sync.Info]:
        return await self._threads.call(self._sync.list, path, recursive=recursive)

    async def stat(self, path: str) -> sync.Info:
        return await self._threads.call(self._sync.stat, path)

    async def mkdir(self, path: str) -> None:
        await self._threads.call(self._sync.mkdir, path)

    async def move(self, source: str, target: str) -> None:
        await self._threads.call(self._sync.move, source, target)

    async def remove(self, path: str, *, recursive: bool = False) -> None:
        await self._threads.call(self._sync.remove, path, recursive=recursive)

    async def info(self) -> sync.Info:
        return await self._threads.call(self._sync.info)

    async def start(self) -> sync.Info:
        return await self._threads.call(self._sync.start)

    async def stop(self) -> sync.Info:
        return await self._threads.call(self._sync.stop)

    async def pause(self) -> sync.Info:
        return await self._threads.call(self._sync.pause)

    async def resume(self) -> sync.Info:
        return await self._threads.call(self._sync.resume)

    async def extend(self, ttl_seconds: float) -> sync.Info:
        return await self._threads.call(self._sync.extend, ttl_seconds)

    async def set_network(self, network: Union[str, Mapping[str, Any]]) -> sync.Info:
        return await self._threads.call(self._sync.set_network, network)

    def egress_events(self, **options: Any) -> AsyncIterator[Event]:
        return self._threads.each(self._sync.egress_events(**options))

    async def snapshot(self, name: Optional[str] = None) -> sync.Info:
        return await self._threads.call(self._sync.snapshot, name)

    async def destroy(self) -> bool:
        return await self._threads.call(self._sync.destroy)


def _later(make: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Sends no request before the first item is consumed."""
    yield from make()


def _quietly(close: Callable[[], Union[None, Any]]) -> None:
    try:
        close()
    except Exception:  # A generator that is running in another thread closes itself.
        pass
