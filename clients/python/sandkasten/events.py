"""Parses server-sent events, and resumes a command's output after a lost connection."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Callable, Dict, Iterator, Optional

from .errors import SandboxError, from_problem

PATIENCE_SECONDS = 30.0

Event = Dict[str, Any]


def events(chunks: Iterator[bytes]) -> Iterator[Event]:
    rest = b""
    for chunk in chunks:
        *blocks, rest = (rest + chunk).split(b"\n\n")
        for block in blocks:
            event = _parse(block.decode())
            if event is None:
                continue
            if event["event"] == "problem":
                raise from_problem(event, int(event.get("status", 500)))
            yield event


def _parse(block: str) -> Optional[Event]:
    name, data = "message", []
    for line in block.split("\n"):
        field, _, value = line.partition(":")
        value = value[1:] if value.startswith(" ") else value
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
    if not data:
        return None
    return {**json.loads("\n".join(data)), "event": name}


def output_bytes(event: Event) -> bytes:
    """The bytes of an output event."""
    return event["text"].encode() if "text" in event else base64.b64decode(event["base64"])


def follow(
    first: Callable[[], Iterator[bytes]],
    again: Callable[[int], Iterator[bytes]],
    status: Callable[[], str],
) -> Iterator[Event]:
    """Yields each event of a command exactly once, up to ``exit``."""
    last, since, wait, opened = 0, None, 0.05, False  # type: int, Optional[float], float, bool
    while True:
        came = False
        try:
            chunks = again(last) if opened else first()
            opened = True
            for event in events(chunks):
                since, wait = None, 0.05
                seq = event.get("seq")
                if not isinstance(seq, int) or seq <= last:
                    continue
                came, last = True, seq
                yield event
                if event["event"] == "exit":
                    return
            now = status()
            if now == "lost":
                raise SandboxError("interrupted", "The exit code of the command is unknown.", status=409)
            if now == "done" and not came:
                return
        except SandboxError as error:
            since = time.monotonic() if since is None else since
            passing = opened and error.code in ("connection_lost", "unavailable", "timeout")
            if not passing or time.monotonic() - since > PATIENCE_SECONDS:
                raise
        if not came:
            time.sleep(wait)
            wait = min(wait * 2, 1.0)
