/**
 * A project that misuses everything that it may use, for a given time. Runs in its own process, so that its work does
 * not delay the neighbour's client. Prints its counts as one line of JSON.
 */
import { randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { exhaust, stopChildren } from './inside.ts'

export interface AttackOptions {
  url: string
  key: string
  /** The E2B front, which exposes every port of its sandboxes without a key. */
  frontUrl: string
  seconds: number
}

const options: AttackOptions = JSON.parse(process.argv[2]!)
const until = performance.now() + options.seconds * 1000
const counts: Record<string, number> = {}
const going = () => performance.now() < until
const count = (what: string) => {
  counts[what] = (counts[what] ?? 0) + 1
}

async function call(method: string, path: string, body?: unknown): Promise<{ status: number; body: never }> {
  const response = await fetch(`${options.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${options.key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  count(`${response.status}`)
  return { status: response.status, body: (text.startsWith('{') ? JSON.parse(text) : undefined) as never }
}

async function session(body: object = {}): Promise<string> {
  const made = await call('POST', '/v1/sessions', body)
  if (made.status !== 201) throw new Error(`create: ${made.status} ${JSON.stringify(made.body)}`)
  return (made.body as { id: string }).id
}

/** Repeats an attack. A refusal counts as a response, not as a failure. */
async function repeat(name: string, attack: () => Promise<unknown>, pauseMs = 0): Promise<void> {
  while (going()) {
    await attack().then(
      () => count(name),
      () => count(`${name}: failed`),
    )
    await sleep(pauseMs)
  }
}

const victim = await session({ limits: { memory_mb: 512, cpu: 0.4 } })
const other = await session()
const created = await fetch(`${options.frontUrl}/sandboxes`, {
  method: 'POST',
  headers: { 'x-api-key': options.key, 'content-type': 'application/json' },
  body: '{}',
})
const { sandboxID: shown } = (await created.json()) as { sandboxID: string }
const script = async (id: string, name: string, text: string) => {
  await call('POST', `/v1/sessions/${id}/fs/write`, { path: name, content: text })
  await call('POST', `/v1/sessions/${id}/run`, {
    cmd: 'python3',
    args: [name],
    exec_id: randomUUID(),
    detach: true,
  })
}
await script(other, 'exhaust.py', exhaust)
await script(other, 'stop.py', stopChildren)

const zeros = 'head -c 67108864 /dev/zero; head -c 67108864 /dev/zero >&2'
const visit = (port: number) =>
  new Promise<void>((resolve) => {
    const { hostname, port: at } = new URL(options.frontUrl)
    const asked = request(
      {
        hostname,
        port: at,
        path: '/',
        agent: false,
        headers: { 'e2b-sandbox-id': shown, 'e2b-sandbox-port': String(port) },
      },
      (response) => response.resume().on('close', resolve),
    )
    asked.on('error', () => resolve()).end()
  })
const refusedUpload = () =>
  new Promise<void>((resolve) => {
    const { hostname, port } = new URL(options.url)
    const socket = connect(Number(port), hostname)
    socket.write(
      'POST /v1/sessions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer wrong\r\ncontent-length: 900000\r\n\r\n',
    )
    socket.on('data', () => {})
    socket.on('error', () => {})
    socket.on('close', () => resolve())
    setTimeout(() => socket.destroy(), 20_000).unref()
  })

let lastPort = 10_000
const nextPort = () => {
  lastPort = lastPort < 60_000 ? lastPort + 1 : 10_001
  return lastPort
}
await Promise.all([
  // Large results that grow when they are encoded.
  repeat('large result', () =>
    call('POST', `/v1/sessions/${victim}/run`, {
      cmd: 'sh',
      args: ['-c', zeros],
      exec_id: randomUUID(),
      max_output_bytes: 67_108_864,
    }),
  ),
  repeat('large result without id', () =>
    call('POST', `/v1/sessions/${victim}/run`, {
      cmd: 'sh',
      args: ['-c', zeros],
      max_output_bytes: 67_108_864,
    }),
  ),
  // Quotas, through every way to start something.
  repeat(
    'forks',
    () =>
      Promise.all(Array.from({ length: 4 }, () => call('POST', `/v1/sessions/${other}/fork`, { count: 2 }))),
    500,
  ),
  repeat(
    'creates',
    () =>
      Promise.all(Array.from({ length: 8 }, () => call('POST', '/v1/sessions', { labels: largeLabels() }))),
    300,
  ),
  // Visits without a key to closed ports.
  repeat('visits', () => Promise.all(Array.from({ length: 20 }, () => visit(nextPort())))),
  repeat('refused uploads', () => Promise.all(Array.from({ length: 50 }, refusedUpload)), 1000),
  repeat('labels', () => call('PATCH', `/v1/sessions/${victim}`, { labels: largeLabels() }), 100),
  // Commands while a program in the sandbox stops every new process.
  repeat('commands under SIGSTOP', () =>
    call('POST', `/v1/sessions/${other}/run`, { cmd: 'true', timeout_ms: 1000 }),
  ),
])
process.stdout.write(`${JSON.stringify(counts)}\n`)
process.exit(0)

/** Far more than allowed, in a body just below the size limit. */
function largeLabels(): Record<string, string> {
  return Object.fromEntries(Array.from({ length: 125 }, (_, at) => [`label-${at}`, 'x'.repeat(4000)]))
}
