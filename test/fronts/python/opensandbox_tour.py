"""OpenSandbox's Python SDK, unmodified, against the front. OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY select the front."""

import asyncio
import os
import time
import urllib.request
from datetime import timedelta

from opensandbox import Sandbox as AsyncSandbox
from opensandbox.config import ConnectionConfigSync
from opensandbox.exceptions import SandboxApiException
from opensandbox.manager import SandboxFilter
from opensandbox.models.execd import RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.filesystem import ContentReplaceEntry, MoveEntry, SearchEntry, SetPermissionEntry, WriteEntry
from opensandbox.sync import SandboxManagerSync
from opensandbox.sync import SandboxSync as Sandbox
from steps import ended_on_time, equal, eventually, finish, raises, step

minutes = timedelta(minutes=10)
sandbox = Sandbox.create("ubuntu", timeout=minutes, env={"SHARED": "all"}, metadata={"tour": os.environ["TOUR"]})
run, files = sandbox.commands.run, sandbox.files


def text(lines):
    return [line.text.rstrip("\n") for line in lines]


def status_of(error):
    return error.status_code


with step("command"):
    done = run("echo out; echo err >&2; exit 3")
    equal((text(done.logs.stdout), text(done.logs.stderr), done.exit_code), (["out"], ["err"], 3))
with step("environment and folder"):
    done = run('echo "$SHARED $OWN $PWD"', opts=RunCommandOpts(working_directory="/usr", envs={"OWN": "one"}))
    equal((text(done.logs.stdout), done.exit_code), (["all one /usr"], 0))
with step("files"):
    files.write_file("/tmp/tour/a.txt", "sand", mode=644)
    files.write_files([WriteEntry(path="/tmp/tour/b.bin", data=bytes(range(256)), mode=600)])
    files.create_directories([WriteEntry(path="/tmp/tour/sub", mode=755)])
    equal((files.read_file("/tmp/tour/a.txt"), files.read_bytes("/tmp/tour/b.bin")), ("sand", bytes(range(256))))
    equal(files.read_bytes("/tmp/tour/b.bin", range_header="bytes=1-3"), bytes([1, 2, 3]))
    equal(b"".join(files.read_bytes_stream("/tmp/tour/b.bin", chunk_size=100)), bytes(range(256)))
with step("file info"):
    info = files.get_file_info(["/tmp/tour/a.txt"])["/tmp/tour/a.txt"]
    equal((info.size, info.mode, info.owner, info.group), (4, 644, "sandbox", "sandbox"))
    assert abs(info.created_at.timestamp() - time.time()) < 60 and info.modified_at >= info.created_at
    root = files.get_file_info(["/etc/passwd"])["/etc/passwd"]
    equal((root.owner, root.group), ("root", "root"))
with step("search, move, replace, permissions, delete"):
    found = files.search(SearchEntry(path="/tmp/tour", pattern="*.txt"))
    equal([entry.path for entry in found], ["/tmp/tour/a.txt"])
    files.move_files([MoveEntry(src="/tmp/tour/a.txt", dest="/tmp/tour/c.txt")])
    files.replace_contents([ContentReplaceEntry(path="/tmp/tour/c.txt", old_content="sand", new_content="sea")])
    files.set_permissions([SetPermissionEntry(path="/tmp/tour/c.txt", mode=600)])
    equal((files.read_file("/tmp/tour/c.txt"), files.get_file_info(["/tmp/tour/c.txt"])["/tmp/tour/c.txt"].mode), ("sea", 600))
    files.delete_files(["/tmp/tour/c.txt"])
    files.delete_directories(["/tmp/tour/sub"])
    equal(status_of(raises(lambda: files.read_file("/tmp/tour/c.txt"), SandboxApiException)), 404)
with step("a long command, as it speaks"):
    heard = []
    handlers = ExecutionHandlersSync(on_stdout=lambda line: heard.append((line.text.strip(), time.monotonic())))
    run("for i in 1 2 3; do echo $i; sleep 0.4; done", handlers=handlers)
    equal([word for word, _ in heard], ["1", "2", "3"])
    assert heard[2][1] - heard[0][1] > 0.5, "it came all at once"
with step("timeout of a command"):
    started = time.monotonic()
    done = run("sleep 60", opts=RunCommandOpts(timeout=timedelta(seconds=1)))
    assert done.exit_code != 0 and time.monotonic() - started < 10
with step("a command in the background"):
    begun = run("echo started; sleep 600", opts=RunCommandOpts(background=True))
    eventually(lambda: "started" in sandbox.commands.get_background_command_logs(begun.id).content)
    assert sandbox.commands.get_command_status(begun.id).running
    sandbox.commands.interrupt(begun.id)
    eventually(lambda: not sandbox.commands.get_command_status(begun.id).running)
with step("a session keeps its state"):
    session = sandbox.commands.create_session()
    sandbox.commands.run_in_session(session, "cd /usr; export KEPT=1")
    equal(text(sandbox.commands.run_in_session(session, 'echo "$PWD $KEPT"').logs.stdout), ["/usr 1"])
    sandbox.commands.delete_session(session)
with step("renew, which never shortens"):
    before = sandbox.get_info().expires_at
    sandbox.renew(timedelta(minutes=1))
    assert abs((sandbox.get_info().expires_at - before).total_seconds()) < 1
    sandbox.renew(timedelta(minutes=30))
    assert (sandbox.get_info().expires_at - before).total_seconds() > 1000
with step("list, connect, metrics"):
    with SandboxManagerSync.create() as manager:
        listed = manager.list_sandbox_infos(SandboxFilter(metadata={"tour": os.environ["TOUR"]}))
        equal([info.id for info in listed.sandbox_infos], [sandbox.id])
    again = Sandbox.connect(sandbox.id)
    equal(text(again.commands.run("echo again").logs.stdout), ["again"])
    again.close()
    assert sandbox.get_metrics().memory_total_in_mib > 0
with step("a port"):
    run("cd /tmp/tour; echo served > index.html; python3 -m http.server 8000", opts=RunCommandOpts(background=True))
    endpoint = sandbox.get_endpoint(8000)

    def served():
        try:
            request = urllib.request.Request(f"http://{endpoint.endpoint}/index.html", headers=endpoint.headers or {})
            return urllib.request.urlopen(request).read() == b"served\n"
        except OSError:
            return False

    eventually(served)
with step("pause and resume"):
    sandbox.pause()
    equal(sandbox.get_info().status.state, "Paused")
    resumed = Sandbox.resume(sandbox.id)
    equal(text(resumed.commands.run("echo on").logs.stdout), ["on"])
    resumed.close()
with step("the asynchronous client"):

    async def tour():
        other = await AsyncSandbox.connect(sandbox.id)
        done = await other.commands.run("echo async; exit 4")
        equal((text(done.logs.stdout), done.exit_code), (["async"], 4))
        await other.files.write_file("/tmp/tour/async", "x")
        equal(await other.files.read_file("/tmp/tour/async"), "x")
        await other.close()

    asyncio.run(tour())
with step("its lifetime ends on time, under a command"):
    brief = Sandbox.create("ubuntu", timeout=timedelta(seconds=3), skip_health_check=True)
    started = time.monotonic()
    done = brief.commands.run("sleep 60")
    assert done.error is not None and done.exit_code != 0, done
    with SandboxManagerSync.create() as manager:
        ended_on_time(lambda: raises(lambda: manager.get_sandbox_info(brief.id), SandboxApiException), 3, started)
with step("wrong key, not found, kill"):
    wrong = ConnectionConfigSync(api_key="wrong")
    equal(status_of(raises(lambda: Sandbox.create("ubuntu", connection_config=wrong), SandboxApiException)), 401)
    equal(status_of(raises(lambda: Sandbox.connect("aaaaaaaaaaaaaaaa"), SandboxApiException)), 404)
    sandbox.kill()
    equal(status_of(raises(sandbox.get_info, SandboxApiException)), 404)
    sandbox.close()
finish()
