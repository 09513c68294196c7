"""Vercel's Python SDK for sandboxes, unmodified, against the front: `base_url` selects the front."""

import asyncio
import inspect
import os
import subprocess
import time
import urllib.request
from datetime import timedelta

from steps import ended_on_time, equal, eventually, finish, raises, step
from vercel import sandbox as async_sandbox
from vercel.api import session
from vercel.sandbox import (
    SandboxApiError,
    SandboxCredentials,
    SandboxPathNotFoundError,
    SandboxQueryByCreatedAt,
    SandboxServiceOptions,
    SandboxStreamError,
    SnapshotSource,
    TagFilter,
    sync,
)

base_url, tour = os.environ["SANDKASTEN_VERCEL_URL"], os.environ["TOUR"]


def credentials(token=os.environ["VERCEL_TOKEN"]):
    return SandboxCredentials(token=token, team_id="team", project_id="project")


options = sync.SandboxServiceOptions(base_url=base_url, credentials_factory=credentials)
minutes = timedelta(minutes=10)


def shell(box, line, **rest):
    return box.run_process("sh", ["-c", line], capture_output=True, **rest)


def status_of(error):
    return error.status_code


with session(service_options=[options]):
    box = sync.create_sandbox(
        name=f"tour-{tour}", execution_time_limit=minutes, env={"SHARED": "all"}, tags={"tour": tour}, ports=[8000]
    )
    fs = box.fs
    with step("command"):
        done = shell(box, "echo out; echo err >&2; exit 3")
        equal((done.stdout, done.stderr, done.returncode), ("out\n", "err\n", 3))
    with step("environment and folder"):
        equal(shell(box, 'echo "$SHARED $OWN $PWD"', env={"OWN": "one"}, cwd="/usr").stdout, "all one /usr\n")
    with step("files"):
        fs.mkdir("notes")
        fs.write_text("notes/a.txt", "sand")
        fs.write_bytes("notes/b.bin", bytes(range(256)))
        equal((fs.read_text("notes/a.txt"), fs.read_bytes("notes/b.bin")), ("sand", bytes(range(256))))
        with fs.batch() as batch:
            batch.write_text("notes/c", "1")
            batch.write_text("notes/d", "2", mode=0o600)
        equal(sorted(entry.path.rsplit("/")[-1] for entry in fs.listdir("notes")), ["a.txt", "b.bin", "c", "d"])
        equal(shell(box, "stat -c %a notes/d").stdout, "600\n")
    with step("file info, rename, remove"):
        equal((fs.is_file("notes/a.txt"), fs.is_dir("notes"), fs.exists("notes/none")), (True, True, False))
        fs.rename("notes/a.txt", "notes/e.txt")
        fs.remove("notes/e.txt")
        raises(lambda: fs.read_text("notes/e.txt"), SandboxPathNotFoundError)
    with step("a long command, as it speaks"):
        process = box.create_process("sh", ["-c", "for i in 1 2 3; do echo $i; sleep 0.4; done; exit 5"])
        heard = [(line.strip(), time.monotonic()) for line in process.stdout]
        equal([word for word, _ in heard], ["1", "2", "3"])
        assert heard[2][1] - heard[0][1] > 0.5, "it came all at once"
        equal(process.wait(), 5)
    with step("timeout of a command"):
        started = time.monotonic()
        done = shell(box, "sleep 60", kill_after=1)
        assert done.returncode != 0 and time.monotonic() - started < 10
    with step("a command in the background: found again, signals"):
        process = box.create_process("sh", ["-c", "echo on; sleep 600"])
        again = box.get_process(process.id)
        equal((again.id, again.returncode), (process.id, None))
        again.kill()
        equal(process.wait(), 137)
    if "input" in inspect.signature(box.run_process).parameters:
        with step("input of a command"):
            equal(box.run_process("cat", input="typed", capture_output=True).stdout, "typed")
            process = box.create_process("sh", ["-c", "read line; echo got $line; cat >/dev/null; exit 6"], stdin=subprocess.PIPE)
            process.stdin.write(b"one\n")
            equal(next(iter(process.stdout)), "got one\n")
            process.stdin.write(b"x" * 300_000)
            process.stdin.close()
            equal(process.wait(), 6)
    with step("a longer lifetime"):
        before = box.session().refresh().execution_time_limit
        box.extend_execution_time_limit(timedelta(minutes=5))
        extended = box.session().refresh().execution_time_limit
        assert timedelta(minutes=4) < extended - before < timedelta(minutes=6), (before, extended)
    with step("list, get"):
        query = SandboxQueryByCreatedAt(tag=TagFilter(key="tour", value=tour))
        equal([one.name for one in sync.query_sandboxes(query=query)], [box.name])
        again = sync.get_sandbox(name=box.name)
        equal(shell(again, "echo again").stdout, "again\n")
    with step("a port"):
        box.create_process("sh", ["-c", "cd notes && echo served > index.html && python3 -m http.server 8000"])
        route = next(route for route in box.routes if route.port == 8000)

        def served():
            try:
                return urllib.request.urlopen(f"{route.url}/index.html").read() == b"served\n"
            except OSError:
                return False

        eventually(served)
    with step("a snapshot, which stops it; use starts it again"):
        snapshot = box.snapshot()
        equal(box.session().status.value, "running")
        copy = sync.create_sandbox(source=SnapshotSource(snapshot_id=snapshot.id), execution_time_limit=minutes)
        equal((copy.fs.read_text("notes/index.html"), fs.read_text("notes/c")), ("served\n", "1"))
        copy.stop()
        copy.destroy()
        snapshot.delete()
    with step("stopped under a command"):
        process = box.create_process("sh", ["-c", "echo on; sleep 600"])
        lines = iter(process.stdout)
        equal(next(lines), "on\n")
        box.stop()
        equal(raises(lambda: list(lines), SandboxStreamError).code, "sandbox_stopped")
    with step("its lifetime ends on time, under a command"):
        brief = sync.create_sandbox(execution_time_limit=timedelta(seconds=3), persistent=False)
        started = time.monotonic()
        raises(lambda: brief.session().run_process("sleep", ["60"], capture_output=True), SandboxStreamError)
        ended_on_time(lambda: raises(lambda: sync.get_sandbox(name=brief.name), SandboxApiError), 3, started)
    with step("not found, delete"):
        equal(status_of(raises(lambda: sync.get_sandbox(name="none"), SandboxApiError)), 404)
        box.stop()
        box.destroy()
        equal(status_of(raises(lambda: sync.get_sandbox(name=box.name), SandboxApiError)), 404)
with step("the asynchronous client"):

    async def visit():
        async def factory():
            return credentials()

        own = SandboxServiceOptions(base_url=base_url, credentials_factory=factory)
        async with session(service_options=[own]):
            async with async_sandbox.create_sandbox(execution_time_limit=minutes) as other:
                done = await other.run_process("sh", ["-c", "echo async; exit 4"], capture_output=True)
                equal((done.stdout, done.returncode), ("async\n", 4))
                await other.fs.write_text("async.txt", "x")
                equal(await other.fs.read_text("async.txt"), "x")

    asyncio.run(visit())
with step("wrong key"):
    wrong = sync.SandboxServiceOptions(base_url=base_url, credentials_factory=lambda: credentials("wrong"))
    with session(service_options=[wrong]):
        equal(status_of(raises(lambda: sync.get_sandbox(name="none"), SandboxApiError)), 401)
finish()
