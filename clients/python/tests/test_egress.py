"""Pages and the stream of egress events. Needs no daemon."""

import asyncio
import json
import unittest

from sandkasten import SandboxClient
from sandkasten.sync import SandboxClient as SyncClient
from test_timeouts import ID, Server, answer


def event(seq):
    return {"seq": seq, "verdict": "denied", "host": "example.com"}


def answers(line, count):
    query = line.split(" ")[1].split("?")[1]
    if "follow=true" in query:
        data = "".join(f"id: {seq}\nevent: denied\ndata: {json.dumps(event(seq))}\n\n" for seq in (3, 4, 5))
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n\r\n{data}".encode()
    if "after" not in query:
        return answer({"events": [event(1), event(2)], "next": 2}, "Connection: close\r\n")
    return answer({"events": [], "next": 2}, "Connection: close\r\n")


class Egress(unittest.TestCase):
    def test_pages(self):
        with Server(answers) as server:
            client = SyncClient(server.url, "sk-test")
            self.addCleanup(client.close)
            self.assertEqual(list(client.egress_events(ID, verdict="denied")), [event(1), event(2)])
            self.assertIn("verdict=denied", server.asked[0])
            self.assertIn("after=2", server.asked[1])

    def test_follow(self):
        async def main(server):
            async with SandboxClient(server.url, "sk-test") as client:
                return [item async for item in client.egress_events(ID, follow=True, limit=4)]

        with Server(answers) as server:
            self.assertEqual(asyncio.run(main(server)), [event(seq) for seq in (1, 2, 3, 4)])
