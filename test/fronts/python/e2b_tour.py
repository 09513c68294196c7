"""E2B's Python SDK, unmodified, against the front. E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL select the front."""

import asyncio
import json
import os
import time
import urllib.request

import e2b
from e2b import AsyncSandbox, CommandExitException, PtySize, Sandbox
from e2b.exceptions import AuthenticationException, InvalidArgumentException, NotFoundException, TimeoutException
from steps import ended_on_time, equal, eventually, finish, raises, step

sandbox = Sandbox.create(timeout=600, envs={"SHARED": "all"}, metadata={"tour": os.environ["TOUR"]})
run, files = sandbox.commands.run, sandbox.files

with step("command"):
    done = run("echo out; echo err >&2")
    equal((done.stdout, done.stderr, done.exit_code), ("out\n", "err\n", 0))
    error = raises(lambda: run("echo o; echo e >&2; exit 3"), CommandExitException)
    equal((error.stdout, error.stderr, error.exit_code), ("o\n", "e\n", 3))
with step("environment and folder"):
    equal(run('echo "$SHARED $OWN $PWD"', envs={"OWN": "one"}, cwd="/usr").stdout, "all one /usr\n")
with step("the account"):
    equal(run("whoami; pwd; echo $HOME").stdout, "user\n/home/user\n/home/user\n")
    equal(run("whoami", user="user").stdout, "user\n")
    raises(lambda: run("whoami", user="root"), InvalidArgumentException)
with step("files"):
    equal(files.write("notes/a.txt", "sand").path, "/home/user/notes/a.txt")
    files.write("notes/b.bin", bytes(range(256)))
    equal((files.read("/home/user/notes/a.txt"), bytes(files.read("notes/b.bin", format="bytes"))), ("sand", bytes(range(256))))
    equal(b"".join(files.read("notes/b.bin", format="stream")), bytes(range(256)))
    files.write_files([{"path": "notes/c", "data": "1"}, {"path": "notes/d", "data": "2"}])
    equal(sorted(entry.name for entry in files.list("notes")), ["a.txt", "b.bin", "c", "d"])
with step("file info, move, remove, folders"):
    info = files.get_info("notes/a.txt")
    equal((info.name, info.size, info.owner, info.group, info.permissions), ("a.txt", 4, "user", "user", "-rw-r--r--"))
    equal(files.rename("notes/a.txt", "notes/e.txt").path, "/home/user/notes/e.txt")
    equal((files.make_dir("made"), files.make_dir("made")), (True, False))
    files.remove("notes/e.txt")
    equal((files.exists("notes/e.txt"), files.exists("made")), (False, True))
    raises(lambda: files.read("notes/e.txt"), NotFoundException)
with step("a folder that is watched"):
    watch = files.watch_dir("notes")
    files.write("notes/new.txt", "rain")
    eventually(lambda: any(event.name == "new.txt" for event in watch.get_new_events()))
    watch.stop()
with step("a long command, as it speaks"):
    heard = []
    run("for i in 1 2 3; do echo $i; sleep 0.4; done", on_stdout=lambda text: heard.append((text.strip(), time.monotonic())))
    equal([word for word, _ in heard], ["1", "2", "3"])
    assert heard[2][1] - heard[0][1] > 0.5, "it came all at once"
with step("timeout of a command"):
    started = time.monotonic()
    # The SDK's timeout and the server's expire together; older SDK versions raise their own ReadTimeout.
    error = raises(lambda: run("sleep 60", timeout=1))
    assert isinstance(error, TimeoutException) or type(error).__name__ == "ReadTimeout", error
    assert time.monotonic() - started < 10
with step("a command in the background: input, list, connect, kill"):
    command = run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(command.pid, "typed\n")
    for stdout, _, _ in command:
        equal(stdout, "typed\n")
        break
    assert command.pid in [process.pid for process in sandbox.commands.list()]
    equal(sandbox.commands.connect(command.pid).kill(), True)
    equal(sandbox.commands.kill(command.pid), False)
with step("a terminal"):
    terminal = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.send_stdin(terminal.pid, b"echo to''gether\nexit\n")
    seen = []
    terminal.wait(on_pty=seen.append)
    assert b"together" in b"".join(seen)
with step("timeouts, info, list, connect"):
    sandbox.set_timeout(900)
    info = sandbox.get_info()
    assert 850 < (info.end_at - info.started_at).total_seconds() < 1000, info
    equal(info.metadata, {"tour": os.environ["TOUR"]})
    assert sandbox.sandbox_id in [one.sandbox_id for one in Sandbox.list().next_items()]
    again = Sandbox.connect(sandbox.sandbox_id)
    equal((again.commands.run("echo again").stdout, again.is_running()), ("again\n", True))
with step("a port"):
    run("cd notes && echo served > index.html && python3 -m http.server 8000", background=True)
    # Names below localhost do not resolve everywhere, so the header is used.
    headers = {"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": "8000"}
    assert sandbox.get_host(8000).startswith(f"8000-{sandbox.sandbox_id}.")

    def served():
        try:
            request = urllib.request.Request(f"{os.environ['E2B_SANDBOX_URL']}/index.html", headers=headers)
            return urllib.request.urlopen(request).read() == b"served\n"
        except OSError:
            return False

    eventually(served)
with step("pause and connect"):
    (sandbox.pause if hasattr(sandbox, "pause") else sandbox.beta_pause)()
    again = Sandbox.connect(sandbox.sandbox_id)
    equal(again.files.read("notes/new.txt"), "rain")
with step("a snapshot"):
    snapshot = again.create_snapshot()
    copy = Sandbox.create(snapshot.snapshot_id, timeout=60)
    equal((copy.files.read("notes/new.txt"), copy.commands.run("whoami").stdout), ("rain", "user\n"))
    copy.kill()
with step("the asynchronous client"):

    async def tour():
        other = await AsyncSandbox.connect(sandbox.sandbox_id)
        equal((await other.commands.run("echo async")).stdout, "async\n")
        await other.files.write("async.txt", "x")
        equal(await other.files.read("async.txt"), "x")

    asyncio.run(tour())
with step("internet access, on and off"):
    for asked in (True, False):
        made = Sandbox.create(timeout=60, allow_internet_access=asked)
        detail = urllib.request.Request(
            f"{os.environ['E2B_API_URL']}/sandboxes/{made.sandbox_id}", headers={"X-API-KEY": os.environ["E2B_API_KEY"]}
        )
        equal(json.load(urllib.request.urlopen(detail))["allowInternetAccess"], False)
        made.kill()
with step("its lifetime ends on time, under a command"):
    brief = Sandbox.create(timeout=3)
    started = time.monotonic()
    raises(lambda: brief.commands.run("sleep 60"), e2b.SandboxException)
    ended_on_time(lambda: not brief.is_running(), 3, started)
with step("wrong key, not found, kill"):
    raises(lambda: Sandbox.create(api_key=f"e2b_{'00' * 20}"), AuthenticationException)
    raises(lambda: Sandbox.connect("aaaaaaaaaaaaaaaa"), NotFoundException)
    equal((again.kill(), again.kill(), sandbox.is_running()), (True, False, False))
    raises(lambda: again.commands.run("true"), e2b.SandboxException)
finish()
