/**
 * Measures the runner through its TypeScript client, interleaved with Node's own spawn. Prints p50 and p95.
 *
 *   node_modules/.bin/node --conditions=sandkasten-source runner/bench/bench.ts [rounds]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buildRunner } from '../../packages/engine/src/runner/build-runner.ts'
import { fresh, rssKb, startRunner } from '../../packages/runner-client/test/harness.ts'

const rounds = Number(process.argv[2] ?? 300)
const megabytes = 100

const times = new Map<string, number[]>()
async function measure(name: string, work: () => Promise<unknown>): Promise<void> {
  const before = process.hrtime.bigint()
  await work()
  const ms = Number(process.hrtime.bigint() - before) / 1e6
  const list = times.get(name) ?? []
  list.push(ms)
  times.set(name, list)
}

await using runner = await startRunner()
const client = await runner.connect()
const shell = await client.openShell({ id: 'bench' })
const idle = await rssKb(runner.pid)

async function nodeSpawn(): Promise<void> {
  const child = spawn('sh', ['-c', 'true'], { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.resume()
  child.stderr.resume()
  await once(child, 'close')
}

for (let round = -20; round < rounds; round++) {
  if (round === 0) times.clear()
  await measure('start→exit `sh -c true`, runner', () =>
    client.run({ id: fresh(), argv: ['sh', '-c', 'true'] }),
  )
  await measure('start→exit `sh -c true`, Node spawn', nodeSpawn)
  await measure('shell exec `true` (builtin)', () => shell.exec('true', { id: fresh() }))
  await measure('shell exec `/bin/true`', () => shell.exec('/bin/true', { id: fresh() }))
  await measure('ping', () => client.ping())
  await measure('stat', () => client.files.stat('/'))
}

const file = join(runner.folder, 'large')
const block = Buffer.alloc(1024 * 1024, 7)
function* blocks(): Generator<Uint8Array, void, void> {
  for (let index = 0; index < megabytes; index++) yield block
}
for (let round = 0; round < 7; round++) {
  await measure(`write ${megabytes} MiB`, () => client.files.write(file, blocks()))
  await measure(`read ${megabytes} MiB`, async () => {
    const { content } = await client.files.readStream(file)
    let total = 0
    for await (const part of content) total += part.length
    if (total !== megabytes * 1024 * 1024) throw new Error(`read ${total} bytes`)
  })
}

const binary = await buildRunner()
for (let round = 0; round < 50; round++) {
  const folder = await mkdtemp(join(tmpdir(), 'sandkasten-bench-'))
  let child: ReturnType<typeof spawn> | undefined
  await measure('spawn→ready (Node spawn included)', async () => {
    child = spawn(binary, ['serve', '--socket', join(folder, 's'), '--ready-fd', '3'], {
      stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    })
    await once(child.stdio[3] as Readable, 'data')
  })
  child?.kill('SIGTERM')
  await once(child as NonNullable<typeof child>, 'exit')
  await rm(folder, { recursive: true, force: true })
}

for (const [name, list] of times) {
  list.sort((a, b) => a - b)
  const at = (quantile: number): string =>
    (list[Math.min(list.length - 1, Math.floor(list.length * quantile))] as number).toFixed(3)
  console.log(
    `${name.padEnd(40)} p50 ${at(0.5).padStart(9)} ms   p95 ${at(0.95).padStart(9)} ms   n ${list.length}`,
  )
}
console.log(
  `resident memory: ${idle} KiB idle with one connection and one shell, ${await rssKb(runner.pid)} KiB after the benchmark`,
)
