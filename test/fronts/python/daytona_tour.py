"""Daytona's Python SDK, unmodified, against the front. DAYTONA_API_URL and DAYTONA_API_KEY select the front."""

import asyncio
import inspect
import os
import time
import urllib.request

from daytona import (
    AsyncDaytona,
    CreateSandboxFromSnapshotParams,
    Daytona,
    DaytonaConfig,
    DaytonaError,
    DaytonaNotFoundError,
    FileUpload,
    SessionExecuteRequest,
)
from daytona.common.errors import DaytonaAuthenticationError
from daytona.common.pty import PtySize
from steps import equal, eventually, finish, raises, step

tour = os.environ["TOUR"]
daytona = Daytona()
params = CreateSandboxFromSnapshotParams(env_vars={"SHARED": "all"}, labels={"tour": tour}, auto_stop_interval=30)
sandbox = daytona.create(params)
process, fs = sandbox.process, sandbox.fs


def listed(**labels):
    """Older versions have pages, newer ones an iterator."""
    if "labels" in inspect.signature(daytona.list).parameters:
        return daytona.list(labels=labels).items
    from daytona import ListSandboxesQuery

    return list(daytona.list(ListSandboxesQuery(labels=labels)))


with step("command"):
    done = process.exec("echo out; echo err >&2; exit 3")
    equal((done.result, done.exit_code), ("out\nerr\n", 3))
with step("environment and folder"):
    equal(process.exec('echo "$SHARED $OWN $PWD"', cwd="/usr", env={"OWN": "one"}).result, "all one /usr\n")
with step("code"):
    equal(process.code_run("print(6 * 7)").result, "42\n")
with step("files"):
    fs.create_folder("notes", "755")
    fs.upload_file(b"sand", "notes/a.txt")
    fs.upload_files([FileUpload(source=bytes(range(256)), destination="notes/b.bin")])
    equal((fs.download_file("notes/a.txt"), fs.download_file("notes/b.bin")), (b"sand", bytes(range(256))))
    equal(sorted(entry.name for entry in fs.list_files("notes")), ["a.txt", "b.bin"])
with step("file info, search, replace, move, permissions, delete"):
    info = fs.get_file_info("notes/a.txt")
    equal((info.name, info.size, info.owner, info.group, info.is_dir), ("a.txt", 4, "sandbox", "sandbox", False))
    equal([match.line for match in fs.find_files("notes", "sand")], [1])
    equal(len(fs.search_files("notes", "*.txt").files), 1)
    fs.replace_in_files(["notes/a.txt"], "sand", "sea")
    fs.move_files("notes/a.txt", "notes/c.txt")
    fs.set_file_permissions("notes/c.txt", mode="600")
    equal((fs.download_file("notes/c.txt"), fs.get_file_info("notes/c.txt").permissions), (b"sea", "0600"))
    fs.delete_file("notes/c.txt")
    raises(lambda: fs.get_file_info("notes/c.txt"), DaytonaNotFoundError)
with step("a session keeps its state"):
    process.create_session("one")
    process.execute_session_command("one", SessionExecuteRequest(command="cd /usr; export KEPT=1"))
    done = process.execute_session_command("one", SessionExecuteRequest(command='echo "$PWD $KEPT"; echo e >&2; (exit 4)'))
    equal((done.stdout, done.stderr, done.exit_code), ("/usr 1\n", "e\n", 4))
with step("a long command, as it speaks"):
    heard = []
    line = "for i in 1 2 3; do echo $i; sleep 0.4; done; echo e >&2"
    begun = process.execute_session_command("one", SessionExecuteRequest(command=line, run_async=True))
    asyncio.run(
        process.get_session_command_logs_async(
            "one",
            begun.cmd_id,
            lambda text: heard.extend((word, time.monotonic()) for word in text.split()),
            lambda text: heard.append((text.strip(), 0)),
        )
    )
    equal([word for word, _ in heard], ["1", "2", "3", "e"])
    assert heard[2][1] - heard[0][1] > 0.5, "it came all at once"
    logs = process.get_session_command_logs("one", begun.cmd_id)
    equal((logs.stdout, logs.stderr), ("1\n2\n3\n", "e\n"))
    equal(process.get_session_command("one", begun.cmd_id).exit_code, 0)
    assert "one" in [session.session_id for session in process.list_sessions()]
    process.delete_session("one")
with step("timeout of a command"):
    started = time.monotonic()
    raises(lambda: process.exec("sleep 60", timeout=1), DaytonaError)
    assert time.monotonic() - started < 10
with step("a terminal"):
    terminal = process.create_pty_session(id="tty", pty_size=PtySize(rows=24, cols=80))
    terminal.wait_for_connection()
    terminal.send_input("echo to''gether; exit 5\n")
    seen = []
    done = terminal.wait(on_data=seen.append)
    assert b"together" in b"".join(seen)
    equal(done.exit_code, 5)
with step("git"):
    process.exec("git init -q repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one")
    assert sandbox.git.status("repo").current_branch in ("main", "master")
with step("intervals, labels, list, get"):
    sandbox.set_autostop_interval(60)
    equal(sandbox.set_labels({"tour": tour, "team": "docs"}), {"tour": tour, "team": "docs"})
    equal([one.id for one in listed(tour=tour, team="docs")], [sandbox.id])
    again = daytona.get(sandbox.id)
    equal((again.auto_stop_interval, again.process.exec("echo again").result), (60, "again\n"))
with step("a port"):
    process.create_session("server")
    process.execute_session_command(
        "server", SessionExecuteRequest(command="cd notes && echo served > index.html && python3 -m http.server 8000", run_async=True)
    )
    preview = sandbox.get_preview_link(8000)

    def served(url, headers):
        try:
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers)).read() == b"served\n"
        except OSError:
            return False

    eventually(lambda: served(f"{preview.url}/index.html", {"x-daytona-preview-token": preview.token}))
    assert not served(f"{preview.url}/index.html", {})
with step("stop and start"):
    sandbox.stop()
    equal(sandbox.state.value, "stopped")
    sandbox.start()
    equal((sandbox.state.value, fs.download_file("notes/index.html")), ("started", b"served\n"))
with step("a snapshot"):
    name = f"snapshot-{tour}"
    (getattr(sandbox, "create_snapshot", None) or sandbox._experimental_create_snapshot)(name)
    copy = daytona.create(CreateSandboxFromSnapshotParams(snapshot=name))
    equal(copy.fs.download_file("notes/index.html"), b"served\n")
    copy.delete()
    daytona.snapshot.delete(daytona.snapshot.get(name))
with step("the asynchronous client"):

    async def visit():
        async with AsyncDaytona() as client:
            other = await client.get(sandbox.id)
            equal((await other.process.exec("echo async")).result, "async\n")
            await other.fs.upload_file(b"x", "async.txt")
            equal(await other.fs.download_file("async.txt"), b"x")

    asyncio.run(visit())
with step("wrong key, not found, delete"):
    wrong = Daytona(DaytonaConfig(api_key="wrong", api_url=os.environ["DAYTONA_API_URL"]))
    raises(lambda: wrong.get(sandbox.id), DaytonaAuthenticationError)
    raises(lambda: daytona.get("aaaaaaaaaaaaaaaa"), DaytonaNotFoundError)
    sandbox.delete()
    raises(lambda: daytona.get(sandbox.id), DaytonaNotFoundError)
finish()
