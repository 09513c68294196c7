"""
Keeps connections to echo servers open, and tries to reach a denied server all the time. Arguments: the token of the
denied attempts, and `host:count` for each server. Writes its state to /tmp/load.json, and ends when /tmp/stop exists.
"""
import asyncio, json, os, socket, sys

token = sys.argv[1].encode()
counts = {host: int(count) for host, count in (one.split(':') for one in sys.argv[2:])}
state = {host: {'open': 0, 'resets': 0, 'ends': 0, 'failed': 0, 'echoes': 0} for host in counts}
attempts = 0


def stopping():
    return os.path.exists('/tmp/stop')


async def keep(host):
    mine = state[host]
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, 7000, family=socket.AF_INET), 30)
        await asyncio.wait_for(reader.readline(), 30)
    except (OSError, asyncio.TimeoutError):
        mine['failed'] += 1
        return
    mine['open'] += 1
    try:
        while not stopping():
            writer.write(b'x' * 64)
            await reader.readexactly(64)
            mine['echoes'] += 1
            await asyncio.sleep(0.7)
    except asyncio.IncompleteReadError:
        mine['ends'] += 1
        mine['open'] -= 1
    except OSError:
        mine['resets'] += 1
        mine['open'] -= 1
    finally:
        writer.close()


async def attack():
    """Nothing of this may arrive, whatever happens to the gateway."""
    global attempts
    while not stopping():
        attempts += 1
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection('11.0.2.1', 7001), 0.5)
            writer.write(token)
            await asyncio.sleep(0.02)
            writer.close()
        except (OSError, asyncio.TimeoutError):
            pass
        await asyncio.sleep(0.01)


async def report():
    while not stopping():
        with open('/tmp/load.new', 'w') as out:
            json.dump({'hosts': state, 'attempts': attempts}, out)
        os.rename('/tmp/load.new', '/tmp/load.json')
        await asyncio.sleep(0.1)


async def main():
    jobs = [asyncio.create_task(job) for job in (attack(), report())]
    for host, count in counts.items():
        # Not all at once: the queue of a listener is shorter.
        for _ in range(count):
            jobs.append(asyncio.create_task(keep(host)))
            await asyncio.sleep(0.002)
    await asyncio.gather(*jobs)
    print(json.dumps({'hosts': state, 'attempts': attempts}))


asyncio.run(main())
