/**
 * A machine and an internet for tests of network policies: two connected network namespaces without any other link.
 *
 * ```text
 * host: engines (egress-worker.ts), their gateway, TCP at 127.0.0.1:7777  ── cable ──  world: HTTP, HTTPS at PUBLIC
 * ```
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { CommandResult, Network } from '@sandkasten/sdk'
import type { EgressEvent, EgressStats } from '../../egress/wire.ts'
import { EngineProvider, type EngineProviderOptions } from '../engine-provider.ts'
import { removeGateway } from '../test-helper.ts'

export interface EgressCage extends AsyncDisposable {
  readonly root: string
  /** An engine in a process of its own, on the root of the cage. */
  engine(options?: EngineProviderOptions): Promise<RemoteEngine>
}

/** Calls of the worker; ids are those of sandboxes. */
export interface RemoteEngine extends AsyncDisposable {
  create(options: { network?: Network; snapshotId?: string; image?: string }): Promise<string>
  run(id: string, script: string): Promise<CommandResult>
  setNetwork(id: string, network: Network): Promise<void>
  networkOf(id: string): Promise<Network>
  events(id: string): Promise<EgressEvent[]>
  /** The first later event that the text is part of. */
  follow(id: string, part: string): Promise<EgressEvent>
  stats(id: string): Promise<EgressStats>
  setSecret(name: string, value: string): Promise<void>
  snapshot(id: string): Promise<string>
  fork(id: string): Promise<string>
  stop(id: string): Promise<void>
  start(id: string): Promise<void>
  destroy(id: string): Promise<void>
  /** Ends the process without a goodbye. */
  kill(): Promise<void>
}

export const PUBLIC = '93.184.216.34'

const SERVER = `
const https = require('node:https'), http = require('node:http'), net = require('node:net'), fs = require('node:fs')
const [place, folder, address] = process.argv.slice(1)
const tell = (request, response) => {
  if (request.url === '/slow') { response.write('start\\n'); return setInterval(() => response.write('more\\n'), 100) }
  response.end(JSON.stringify({ host: request.headers.host, path: request.url, authorization: request.headers.authorization }))
}
const options = { cert: fs.readFileSync(folder + '/server.pem'), key: fs.readFileSync(folder + '/server.key') }
let waiting = place === 'world' ? 2 : 1
const up = () => { if (--waiting === 0) console.log('up') }
if (place === 'world') {
  https.createServer(options, tell).listen(443, address, up)
  http.createServer(tell).listen(80, address, up)
} else {
  net.createServer((c) => { c.on('error', () => {}); c.end('service\\n') }).listen(7777, '127.0.0.1', up)
}
`

export async function egressCage(): Promise<EgressCage> {
  const [hostSpace, world] = ['host', 'world'].map((name) => `skt-egress-${process.pid}-${name}`) as [
    string,
    string,
  ]
  const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-egress-'))
  const root = path.join(folder, 'root')
  const children: ChildProcess[] = []
  const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const within = (space: string, ...command: string[]) => {
    // Not `ip netns exec`, which hides the control groups.
    const args = [`--net=/run/netns/${space}`, ...command]
    const child = spawn('nsenter', args, { stdio: ['pipe', 'pipe', 'inherit'] })
    children.push(child)
    return child
  }
  const close = async () => {
    for (const child of children) {
      if (child.exitCode !== null || child.signalCode !== null) continue
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    // A test that failed has left its sandboxes.
    if (existsSync(root)) {
      await using provider = new EngineProvider({ isolator: 'oci', root })
      for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
      await removeGateway(root)
    }
    for (const space of [hostSpace, world]) {
      try {
        ip('netns', 'delete', space)
      } catch {
        // It was not made.
      }
    }
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    for (const space of [hostSpace, world]) ip('netns', 'add', space)
    ip('-n', hostSpace, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', world)
    for (const space of [hostSpace, world])
      for (const device of ['lo', 'eth0']) ip('-n', space, 'link', 'set', device, 'up')
    ip('-n', hostSpace, 'address', 'add', '192.168.77.2/24', 'dev', 'eth0')
    ip('-n', world, 'address', 'add', '192.168.77.1/24', 'dev', 'eth0')
    ip('-n', world, 'address', 'add', `${PUBLIC}/32`, 'dev', 'lo')
    ip('-n', hostSpace, 'route', 'add', 'default', 'via', '192.168.77.1')
    makeCertificates(folder)
    for (const [place, space] of Object.entries({ host: hostSpace, world }))
      await once(within(space, process.execPath, '-e', SERVER, place, folder, PUBLIC).stdout!, 'data')
  } catch (error) {
    await close()
    throw error
  }
  const host = {
    resolvers: [],
    hosts: { 'allowed.test': [PUBLIC], 'other.test': [PUBLIC], 'inside.test': ['127.0.0.1'] },
  }
  const egress = { host, upstreamCa: [readFileSync(path.join(folder, 'ca.pem'), 'utf8')] }
  return {
    root,
    async engine(options = {}) {
      const all = { root, egress, ...options }
      const worker = fileURLToPath(new URL('./egress-worker.ts', import.meta.url))
      const child = within(
        hostSpace,
        process.execPath,
        '--conditions=sandkasten-source',
        '--disable-warning=ExperimentalWarning',
        worker,
        JSON.stringify(all),
      )
      return remoteEngine(child)
    },
    [Symbol.asyncDispose]: close,
  }
}

function remoteEngine(child: ChildProcess): RemoteEngine {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>()
  let lastId = 0
  createInterface({ input: child.stdout! }).on('line', (line) => {
    const { id, value, error } = JSON.parse(line)
    const call = waiting.get(id)
    waiting.delete(id)
    if (error) call?.reject(Object.assign(new Error(error.message), error))
    else call?.resolve(value)
  })
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the worker has ended'))
  })
  const call = (method: string, ...args: unknown[]) =>
    new Promise<never>((resolve, reject) => {
      lastId += 1
      waiting.set(lastId, { resolve: resolve as (value: unknown) => void, reject })
      child.stdin!.write(`${JSON.stringify({ id: lastId, method, args })}\n`)
    })
  const end = async (signal?: NodeJS.Signals) => {
    if (child.exitCode !== null || child.signalCode !== null) return
    if (signal) child.kill(signal)
    else child.stdin!.end()
    await once(child, 'exit')
  }
  const methods = ['create', 'run', 'setNetwork', 'networkOf', 'events', 'follow', 'stats', 'setSecret']
  const more = ['snapshot', 'fork', 'stop', 'start', 'destroy']
  const calls = [...methods, ...more].map((method) => [method, call.bind(undefined, method)])
  return {
    ...(Object.fromEntries(calls) as Omit<RemoteEngine, 'kill' | typeof Symbol.asyncDispose>),
    kill: () => end('SIGKILL'),
    [Symbol.asyncDispose]: () => end(),
  }
}

function makeCertificates(folder: string): void {
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] })
  const key = (name: string) => [
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    name,
  ]
  openssl('req', '-x509', ...key('ca.key'), '-out', 'ca.pem', '-days', '2', '-subj', '/CN=Test authority')
  openssl('req', ...key('server.key'), '-out', 'server.csr', '-subj', '/CN=server')
  writeFileSync(path.join(folder, 'extensions'), 'subjectAltName=DNS:allowed.test,DNS:other.test\n')
  openssl(
    ...['x509', '-req', '-in', 'server.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'],
    ...['-out', 'server.pem', '-days', '2', '-extfile', 'extensions'],
  )
}
