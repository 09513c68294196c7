/**
 * A simulated host and internet for tests of the network `open`: two connected network namespaces without any other
 * link.
 *
 * ```text
 * host: the engine of a worker process, servers on all its addresses  ── cable ──  world: stand-in servers at any address
 * ```
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OpenNetwork } from '../../open-network.ts'
import { type RemoteSandbox, remoteSandbox } from './remote-sandbox.ts'

export interface NetworkCage extends AsyncDisposable {
  /** An engine on the host of this cage, with one sandbox whose network is open. */
  sandbox(open?: OpenNetwork): Promise<RemoteSandbox>
  /** Gives an address to the host. */
  addAddress(address: string): void
}

/** Answers every connection and datagram with the server's name and the requested address. */
const SERVER = `
const net = require('node:net'), dgram = require('node:dgram')
const [place, ports, addresses] = JSON.parse(process.argv[1])
let waiting = ports.length * (1 + addresses.length)
const up = () => { if (--waiting === 0) console.log('up') }
for (const port of ports) {
  net.createServer((c) => { c.on('error', () => {}); c.end(place + ' ' + c.localAddress.replace('::ffff:', '')) }).listen({ port, host: '::' }, up)
  for (const address of addresses) {
    // Bound to one address, so that answers come from that address.
    const s = dgram.createSocket(address.includes(':') ? 'udp6' : 'udp4')
    s.on('message', (m, from) => s.send(place + ' ' + address, from.port, from.address))
    s.bind(port, address, up)
  }
}`

export async function openNetworkCage(addresses: {
  readonly host: readonly string[]
  readonly world: readonly string[]
  readonly nameserver: string
}): Promise<NetworkCage> {
  const name = `skt-${process.pid}`
  const [host, world] = [`${name}-host`, `${name}-world`]
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  const children: ChildProcess[] = []
  const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const give = (space: string, device: string, address: string) => {
    const isV6 = address.includes(':')
    const cidr = address.includes('/') ? address : `${address}/${isV6 ? 128 : 32}`
    ip('-n', space, 'address', 'add', cidr, 'dev', device, ...(isV6 ? ['nodad'] : []))
  }
  const within = (space: string, command: readonly string[]) => {
    // Not `ip netns exec`, which hides the control groups.
    const child = spawn('nsenter', [`--net=/run/netns/${space}`, ...command], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    children.push(child)
    return child
  }

  const knowWayTo = (address: string) =>
    ip('-n', world, 'route', 'add', address, 'via', address.includes(':') ? '2600:77::2' : '192.168.77.2')

  async function serve(space: string, what: readonly [string, readonly number[], readonly string[]]) {
    await once(within(space, [process.execPath, '-e', SERVER, JSON.stringify(what)]).stdout!, 'data')
  }

  async function close(): Promise<void> {
    for (const child of children.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill()
      await once(child, 'exit')
    }
    for (const space of [host, world]) {
      try {
        ip('netns', 'delete', space)
      } catch {
        // The namespace does not exist.
      }
    }
    rmSync(folder, { recursive: true, force: true })
  }

  try {
    ip('netns', 'add', host)
    ip('netns', 'add', world)
    ip('-n', host, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', world)
    for (const space of [host, world])
      for (const device of ['lo', 'eth0']) ip('-n', space, 'link', 'set', device, 'up')
    for (const address of addresses.host) give(host, 'eth0', address)
    give(world, 'eth0', '192.168.77.1/24')
    give(world, 'eth0', '2600:77::1/64')
    for (const address of addresses.world) give(world, 'lo', address)
    ip('-n', host, 'route', 'add', 'default', 'via', '192.168.77.1')
    ip('-n', host, '-6', 'route', 'add', 'default', 'via', '2600:77::1')
    // The kernel chooses the host's source address, so the world has routes to all of them.
    for (const address of addresses.host)
      if (!/^(192\.168\.77|2600:77:)/.test(address)) knowWayTo(plain(address))
    await serve(host, ['host', [8080], addresses.host.map(plain)])
    await serve(world, ['world', [8080, 53], addresses.world])
    writeFileSync(join(folder, 'resolv.conf'), `nameserver ${addresses.nameserver}\n`)
  } catch (error) {
    await close()
    throw error
  }

  return {
    sandbox(open = {}) {
      const mounted = `mount --bind ${folder}/resolv.conf /etc/resolv.conf && exec "$@"`
      const enter = [
        'nsenter',
        `--net=/run/netns/${host}`,
        'unshare',
        '--mount',
        'sh',
        '-c',
        mounted,
        'sh',
      ] as const
      return remoteSandbox([...enter], { openNetwork: open }, { network: 'open' })
    },
    addAddress(address) {
      give(host, 'eth0', address)
      knowWayTo(address)
    },
    [Symbol.asyncDispose]: close,
  }
}

const plain = (cidr: string) => cidr.split('/')[0]!
