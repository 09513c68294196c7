/** The corpus of ways out, on one isolator. */
import type { EngineProviderOptions } from '@sandkasten/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ALLOWED, FRONT, RESOLVER, WILD } from '../world/addresses.ts'
import { closeAll } from '../world/close.ts'
import { type Engine, openEngine } from '../world/engine.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'
import { closedPolicy, type EgressEvent, SECRET, type Trial, tryAll } from './trial.ts'
import type { EventPattern, Way } from './way.ts'
import { ways as everyWay } from './ways.ts'

export interface Subject {
  readonly name: string
  readonly missing: string | undefined
  /** Starts what the engine needs. */
  options?(world: World): Promise<EngineProviderOptions>
  /** See `openEngine`. */
  asAccount?(command: readonly string[]): readonly string[]
  stop?(): Promise<void>
  /** Whether a sandbox may have the user root. Default true. */
  readonly hasRoot?: boolean
  /** Whether a sandbox may have the network `open`. Default true. */
  readonly hasOpen?: boolean
  /** Whether all ways also run on the bare host, which is the same for each isolator. Default false. */
  readonly hasBare?: boolean
  /** What is different for a way. */
  differs?(way: Way): Partial<Pick<Way, 'event' | 'opens'>> | undefined
}

/** What an allowed name leads to. Everything else that leaves the host is a hole. */
const ALLOWED_DESTINATIONS = [
  `${RESOLVER}:53`,
  ...[ALLOWED, '2600:11::1:1', WILD, FRONT, '11.0.1.4'].flatMap((address) => [
    `${address}:80`,
    `${address}:443`,
  ]),
]

export function waysOutOf(subject: Subject): void {
  const missing = worldMissing() ?? subject.missing
  const ways = everyWay.map((way) => ({ ...way, ...subject.differs?.(way) }))
  describe.skipIf(missing)(`ways out: ${subject.name}${missing ? ` (skipped: ${missing})` : ''}`, () => {
    let world: World
    let engine: Engine
    let trial: Trial
    beforeAll(async () => {
      world = await openWorld({ daemon: true })
      const options = { secrets: { front: SECRET }, ...(await subject.options?.(world)) }
      engine = await openEngine(world, options, subject.asAccount)
      // The gateway starts with the first sandbox that has a policy.
      await engine.destroy(await engine.create({ network: closedPolicy }))
      trial = await tryAll(ways, engine, world, { hasRoot: true, hasOpen: true, hasBare: false, ...subject })
    }, 180_000)
    afterAll(() => closeAll(engine, { [Symbol.asyncDispose]: async () => subject.stop?.() }, world), 60_000)

    it('are at least 60, each with its own name', () => {
      expect(new Set(ways.map(({ name }) => name)).size).toBe(ways.length)
      expect(ways.length).toBeGreaterThanOrEqual(60)
    })

    it('let nothing out but what the policy allows', () => {
      const packets = trial.whileClosed.filter(({ kind }) => kind === 'packet')
      const strange = packets.filter(({ at }) => !ALLOWED_DESTINATIONS.includes(at))
      expect(strange.map(({ at, protocol, data }) => `${protocol} ${at} ${data.slice(0, 80)}`)).toEqual([])
      // The allowed part of the scripts did arrive, so the records work.
      expect(packets.length).toBeGreaterThan(0)
    })

    it.each(ways.map((way) => [way.name, way] as const))('%s', (_, way) => {
      const { arrivals, token, output, events } = trial.closed.get(way)!
      expect(arrivals, `${way.tries} leads out`).toEqual([])
      if (!('unseen' in way.event)) {
        const pattern = way.event
        const recorded = events.filter((event) => matches(event, pattern, token))
        expect(
          recorded.length,
          `${way.tries} left no event; output: ${output}; ${near(events, pattern)}`,
        ).toBeGreaterThan(0)
      }
      const bare = trial.bare.get(way)
      if (subject.hasBare) expect(bare?.arrivals, `on the bare host: ${bare?.output}`).not.toEqual([])
      if (way.opens)
        expect(
          trial.opened.get(way)?.arrivals,
          `with all allowed: ${trial.opened.get(way)?.output}`,
        ).not.toEqual([])
    })

    it.skipIf(subject.hasOpen === false)(
      'the network open leads neither to the host nor to private addresses',
      () => {
        const results = [...trial.publicOnly]
        expect(results.length).toBeGreaterThan(20)
        expect(results.filter(([, result]) => result.arrivals.length > 0).map(([way]) => way.name)).toEqual(
          [],
        )
      },
    )

    it('the widest policy leads neither to the host nor to private addresses', () => {
      const results = [...trial.widest]
      expect(results.length).toBeGreaterThan(90)
      expect(results.filter(([, result]) => result.arrivals.length > 0).map(([way]) => way.name)).toEqual([])
    })

    it('another sandbox is not reachable at any address', async () => {
      const [one, other] = await Promise.all([
        engine.create({ network: closedPolicy }),
        engine.create({ network: closedPolicy }),
      ])
      const listening = engine.run(other, { cmd: 'python3', args: ['-c', LISTEN] })
      const call = (id: string, word: string) => engine.run(id, { cmd: 'python3', args: ['-c', CALL, word] })
      await expect.poll(async () => (await call(other, 'itself')).stdout).toContain('heard')
      await call(one, 'neighbour')
      await call(other, 'end')
      const { stdout } = await listening
      expect(stdout).toContain('itself')
      expect(stdout).not.toContain('neighbour')
    })

    it('names below an allowed wildcard reach its DNS server, as the documentation says', async () => {
      const id = await engine.create({ network: closedPolicy })
      await engine.run(id, { cmd: 'getent', args: ['hosts', 'data-in-a-label.wild.example'] })
      await world.settle()
      expect(world.records.some(({ kind, data }) => kind === 'dns' && data.includes('data-in-a-label'))).toBe(
        true,
      )
    })
  })
}

/** An error is not an answer of the policy, unless the way asks for one. */
function matches(event: EgressEvent, pattern: EventPattern, token: string): boolean {
  const { kind, host, address, port, reason } = pattern
  return (
    (event.verdict === 'denied' || event.verdict === 'error') &&
    (kind === undefined || event.kind === kind) &&
    (host === undefined || event.host === host.replace('{T}', token)) &&
    (address === undefined || event.address === address) &&
    (port === undefined || event.port === port) &&
    (reason === undefined || [reason].flat().includes(event.reason ?? ''))
  )
}

/** Events that could have been meant, for the message. */
function near(events: readonly EgressEvent[], { address, port, host, kind }: EventPattern): string {
  const found = events.filter(
    (event) =>
      event.verdict !== 'allowed' &&
      ((port !== undefined && event.port === port) || event.address === address || event.host === host),
  )
  return JSON.stringify((found.length > 0 ? found : events.filter((event) => event.kind === kind)).slice(-6))
}

const LISTEN = `
import socket
server = socket.create_server(('::', 7100), family=socket.AF_INET6, dualstack_ipv6=True)
word = ''
while word != 'end':
    stream, _ = server.accept()
    word = stream.recv(100).decode()
    print(word)
    stream.sendall(b'heard')
`

const CALL = `
import socket, sys
for address in ('192.0.0.2', 'fd73:616e:646b::2', '127.0.0.1', '::1', '192.0.0.3'):
    try:
        # The gateway accepts connections that it then resets.
        with socket.create_connection((address, 7100), 0.5) as stream:
            stream.sendall(sys.argv[1].encode()); print(stream.recv(100))
    except OSError as error: print(address, error)
`
