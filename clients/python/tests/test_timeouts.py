"""A daemon that stops responding: no call waits forever. Needs no daemon."""

import asyncio
import json
import socket
import threading
import time
import unittest

from sandkasten import SandboxClient, SandboxError
from sandkasten import events, sync
from sandkasten.sync import SandboxClient as SyncClient
from sandkasten.sync import Session

ID = "a" * 16


class Server:
    """Accepts connections. ``answers`` maps the request's first line to the response; without one it sends nothing."""

    def __init__(self, answers=lambda line, count: None):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._answers = answers
        self._open = []
        self.asked = []
        self.url = "http://127.0.0.1:%d" % self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        try:
            line = connection.recv(65536).split(b"\r\n")[0].decode()
            self.asked.append(line)
            answer = self._answers(line, len(self.asked))
            if answer is not None:
                connection.sendall(answer)
        except OSError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        for connection in self._open:
            connection.close()


def answer(body, head=""):
    data = json.dumps(body).encode()
    return f"HTTP/1.1 200 OK\r\n{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Timeouts(unittest.TestCase):
    def client(self, server):
        client = SyncClient(server.url, "sk-test", timeout=0.3, connect_timeout=0.3)
        self.addCleanup(client.close)
        return client

    def gives_up(self, call, within=5.0):
        begun = time.monotonic()
        with self.assertRaises(SandboxError) as caught:
            call()
        self.assertLess(time.monotonic() - begun, within)
        self.assertEqual(caught.exception.code, "timeout")

    def test_every_call_times_out_on_a_silent_server(self):
        self.addCleanup(setattr, events, "PATIENCE_SECONDS", events.PATIENCE_SECONDS)
        events.PATIENCE_SECONDS = 0.5
        with Server() as server:
            client = self.client(server)
            session = Session(client._http, ID)
            calls = {
                "create_session": client.create_session,
                "get_session": lambda: client.get_session(ID),
                "list_sessions": client.list_sessions,
                "get_policy": lambda: client.get_policy("default"),
                "set_policy": lambda: client.set_policy("default", {}),
                "delete_snapshot": lambda: client.delete_snapshot("x"),
                "create_volume": lambda: client.create_volume("x"),
                "get_volume": lambda: client.get_volume("x"),
                "list_volumes": client.list_volumes,
                "delete_volume": lambda: client.delete_volume("x"),
                "list_secrets": client.list_secrets,
                "put_secret": lambda: client.put_secret("x", "y"),
                "delete_secret": lambda: client.delete_secret("x"),
                "egress_events": lambda: list(session.egress_events()),
                "set_network": lambda: session.set_network("none"),
                "exec": lambda: session.exec("true"),
                "run": lambda: session.run("true"),
                "stream": lambda: list(session.stream("true")),
                "write": lambda: session.write("f", "x"),
                "read": lambda: session.read("f"),
                "read_chunks": lambda: list(session.read_chunks("f")),
                "list": session.list,
                "stat": lambda: session.stat("f"),
                "mkdir": lambda: session.mkdir("d"),
                "move": lambda: session.move("a", "b"),
                "remove": lambda: session.remove("f"),
                "info": session.info,
                "start": session.start,
                "stop": session.stop,
                "pause": session.pause,
                "resume": session.resume,
                "extend": lambda: session.extend(1),
                "snapshot": session.snapshot,
                "destroy": session.destroy,
            }
            public = {name for kind in (type(client), type(session)) for name in vars(kind) if not name.startswith("_")}
            self.assertEqual(public - {"close"}, set(calls))
            for name, call in calls.items():
                with self.subTest(name):
                    self.gives_up(call)

    def test_the_async_client_times_out_too(self):
        async def main(server):
            async with SandboxClient(server.url, "sk-test", timeout=0.3, connect_timeout=0.3) as client:
                await client.create_session()

        with Server() as server:
            self.gives_up(lambda: asyncio.run(main(server)))

    def test_a_truncated_response(self):
        with Server(lambda line, count: b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{") as server:
            self.gives_up(lambda: self.client(server).list_sessions())
        with Server(lambda line, count: b"HTTP/1.1 200") as server:
            self.gives_up(lambda: self.client(server).list_sessions())

    def test_a_long_command_continues_while_the_daemon_responds(self):
        done = {"exit_code": 0, "cwd": "/", "output": "late", "truncated": False, "duration_ms": 1}

        def answers(line, count):
            if "healthz" not in line:
                time.sleep(1.2)
            return answer({} if "healthz" in line else done)

        with Server(answers) as server:
            session = Session(self.client(server)._http, ID)
            self.assertEqual(session.exec("sleep 1").output, "late")
            self.assertGreaterEqual(sum("healthz" in line for line in server.asked), 2)

    def test_a_program_has_its_own_timeout_plus_grace(self):


        self.addCleanup(setattr, sync, "GRACE_SECONDS", sync.GRACE_SECONDS)
        sync.GRACE_SECONDS = 0.5
        # The daemon runs, but never answers this request.
        with Server(lambda line, count: answer({}) if "healthz" in line else None) as server:
            session = sync.Session(self.client(server)._http, ID)
            self.gives_up(lambda: session.run("sleep", ["9"], timeout_ms=500), within=3.0)

    def test_options_are_checked(self):
        for options in ({"timeout": 0}, {"connect_timeout": -1}, {"timeout": "1"}, {"base_url": "http://b"}):
            with self.subTest(options), self.assertRaises(SandboxError) as caught:
                SyncClient("http://a", "k", **options)
            self.assertEqual(caught.exception.code, "invalid_argument")
        SyncClient(base_url="http://a", api_key="k").close()


if __name__ == "__main__":
    unittest.main()
