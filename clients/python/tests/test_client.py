"""Uses a real daemon at SANDKASTEN_URL; test/clients/python.test.ts starts it."""

import asyncio
import threading
import unittest

from sandkasten import ExecResult, SandboxClient, SandboxError, output_bytes
from sandkasten.sync import SandboxClient as SyncClient


class Async(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = SandboxClient()
        self.session = await self.client.create_session(labels={"test": "python"}, env={"GIVEN": "at create"})

    async def asyncTearDown(self):
        await self.session.destroy()
        await self.client.close()

    async def test_shell_keeps_its_state(self):
        await self.session.exec("mkdir -p work && cd work && export NAME=kept")
        result = await self.session.exec('echo "$NAME $GIVEN"; echo err >&2; (exit 3)', timeout_ms=30000)
        self.assertIsInstance(result, ExecResult)
        self.assertEqual((result.exit_code, result.output), (3, "kept at create\nerr\n"))
        self.assertTrue(result.cwd.endswith("/work"))
        self.assertFalse(result.truncated)
        self.assertGreater(result.duration_ms, 0)

    async def test_run_separates_streams(self):
        result = await self.session.run("sh", ["-c", 'cat; printf %s "$1" >&2', "sh", "it's *"], stdin=b"in\n")
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("in\n", "it's *", 0))

    async def test_files(self):
        await self.session.write("dir/text", "Grüße")
        self.assertEqual((await self.session.read("dir/text")).decode(), "Grüße")
        data = bytes(range(256)) * 5000
        await self.session.write("dir/binary", (data[at : at + 100_000] for at in range(0, len(data), 100_000)))
        self.assertEqual(await self.session.read("dir/binary"), data)
        self.assertEqual(await self.session.read("dir/binary", max_bytes=10), data[:10])
        self.assertEqual(b"".join([chunk async for chunk in self.session.read_chunks("dir/binary")]), data)
        self.assertEqual([entry["name"] for entry in await self.session.list("dir")], ["binary", "text"])
        await self.session.move("dir/text", "moved")
        await self.session.remove("dir", recursive=True)
        with self.assertRaises(SandboxError) as caught:
            await self.session.read("dir/text")
        self.assertEqual((caught.exception.code, caught.exception.status), ("file_not_found", 404))
        self.assertTrue(caught.exception.hint and caught.exception.request_id)

    async def test_stream(self):
        events = [event async for event in self.session.stream("echo one; echo two >&2; exit 4")]
        self.assertEqual(b"".join(output_bytes(event) for event in events[:-1]), b"one\ntwo\n")
        self.assertEqual((events[-1]["event"], events[-1]["exit_code"]), ("exit", 4))
        self.assertEqual([event["seq"] for event in events], list(range(1, len(events) + 1)))

    async def test_concurrent_commands(self):
        results = await asyncio.gather(*(self.session.run("echo", [str(number)]) for number in range(20)))
        self.assertEqual([result.stdout for result in results], [f"{number}\n" for number in range(20)])

    async def test_cancelling_ends_the_command(self):
        running = asyncio.ensure_future(self.session.exec("touch begun; sleep 1000000"))
        while "begun" not in [entry["name"] for entry in await self.session.list()]:
            await asyncio.sleep(0.02)
        running.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await running
        # The shell runs one command at a time: this one runs only because the first was ended.
        self.assertEqual((await self.session.exec("echo on")).output, "on\n")

    async def test_merged_output(self):
        script = "for i in $(seq 100); do echo o$i; echo e$i >&2; done"
        merged = await self.session.run("sh", ["-c", script], output="merged")
        expected = "".join(f"o{i}\ne{i}\n" for i in range(1, 101))
        self.assertEqual((merged.stdout, merged.stderr), (expected, ""))

    async def test_variables_without_a_value_are_ignored(self):
        script = 'printf "%s %s" "${KEPT-unset}" "${LEFT_OUT-unset}"'
        shown = await self.session.run("sh", ["-c", script], env={"KEPT": "yes", "LEFT_OUT": None})
        self.assertEqual(shown.stdout, "yes unset")

    async def test_list_and_get(self):
        found = await self.client.list_sessions(labels={"test": "python"}, status="running")
        self.assertIn(self.session.id, [info["id"] for info in found])
        again = await self.client.get_session(self.session.id)
        self.assertEqual((await again.info())["status"], "running")
        for unknown in ("aaaaaaaaaaaaaaaa", "..", "a/b"):
            with self.assertRaises(SandboxError) as caught:
                await self.client.get_session(unknown)
            self.assertEqual(caught.exception.code, "not_found")

    async def test_subject_and_policy(self):
        self.assertIsNone((await self.session.info())["subject"])
        self.assertEqual(await self.client.list_sessions(subject="nobody"), [])
        policy = {"max": {"cpu": 8}}
        answer = await self.client.set_policy("default", policy)
        try:
            self.assertEqual((answer["policy"], answer["effective"]["max"]["cpu"]), (policy, 8))
            self.assertEqual(await self.client.get_policy("default"), answer)
        finally:
            self.assertEqual((await self.client.set_policy("default", {}))["policy"], {})

    async def test_stop_and_start(self):
        await self.session.write("note", "kept")
        self.assertEqual((await self.session.stop())["status"], "stopped")
        self.assertEqual((await self.session.start())["status"], "running")
        self.assertEqual(await self.session.read("note"), b"kept")


class Sync(unittest.TestCase):
    def test_the_blocking_client(self):
        with SyncClient() as client:
            session = client.create_session()
            try:
                session.write("hello.sh", "echo hello $1")
                self.assertEqual(session.exec("sh hello.sh you").output, "hello you\n")
                self.assertEqual(session.read("hello.sh"), b"echo hello $1")
                kinds = [event["event"] for event in session.stream("echo x")]
                self.assertEqual(kinds, ["output", "exit"])
                outputs = []
                threads = [
                    threading.Thread(target=lambda: outputs.append(session.run("echo", ["x"]).stdout))
                    for _ in range(5)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
                self.assertEqual(outputs, ["x\n"] * 5)
            finally:
                self.assertTrue(session.destroy())
            self.assertFalse(session.destroy())

    def test_errors(self):
        with self.assertRaises(SandboxError) as caught:
            SyncClient(api_key="sk-wrong-key").create_session()
        self.assertEqual((caught.exception.code, caught.exception.status), ("unauthenticated", 401))
        with self.assertRaises(SandboxError) as caught:
            SyncClient(url="http://127.0.0.1:1").list_sessions()
        self.assertEqual((caught.exception.code, caught.exception.retryable), ("unavailable", True))
        with self.assertRaises(SandboxError) as caught:
            SyncClient(url="ftp://example.com")
        self.assertEqual(caught.exception.code, "invalid_argument")


if __name__ == "__main__":
    unittest.main()
