"""Results of commands."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Dict, Optional, Type, TypeVar


@dataclass(frozen=True)
class ExecResult:
    """The result of a command in a session's shell."""

    exit_code: int
    cwd: str
    """The shell's directory after the command."""
    output: str
    """stdout and stderr, in order of arrival."""
    truncated: bool
    duration_ms: float
    timed_out: bool = False
    shell_restarted: bool = False
    warning: Optional[str] = None
    exec_id: Optional[str] = None


@dataclass(frozen=True)
class RunResult:
    """The result of a program that ran without a shell."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool
    duration_ms: float
    timed_out: bool = False
    signal: Optional[str] = None
    oom: Optional[bool] = None
    exec_id: Optional[str] = None


T = TypeVar("T", ExecResult, RunResult)


def result(kind: Type[T], answer: Dict[str, Any]) -> T:
    """Ignores fields that a newer daemon adds."""
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in answer.items() if name in known})
