/** Streams 100 MiB in and out, beside Node's own file system calls and Docker's archive calls. */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Turn } from '../../measure.ts'
import { timed } from '../../measure.ts'
import { reportTurns } from '../../report.ts'
import type { Sandbox } from '../subjects/ours.ts'
import { folderIn } from '../workplace.ts'
import type { Bench, Files, Stage } from './stage.ts'

const BYTES = 100 * 1024 * 1024
const block = randomBytes(1024 * 1024)
const CHUNK = 64 * 1024

export const files: Stage = {
  title: '100 MiB written and read',
  ids: ['host', 'docker', 'engine'].flatMap((name) => [`${name}.write100MiB`, `${name}.read100MiB`]),
  async run(bench: Bench) {
    const { docker, ours, quick, place } = bench
    const needs = (name: string) => bench.wants(`${name}.write100MiB`) || bench.wants(`${name}.read100MiB`)
    const container = needs('docker') ? await docker?.openFiles() : undefined
    const sandbox = needs('engine') ? await ours?.create() : undefined
    try {
      const turns = await hostTurns(folderIn(place, 'files'))
      if (container) turns.push(...(await dockerTurns(container)))
      if (sandbox) turns.push(...(await ourTurns(sandbox)))
      await reportTurns(bench, turns, quick ? 2 : 8)
    } finally {
      await container?.close()
      if (sandbox) await ours?.destroy(sandbox)
    }
  },
}

/** Produced in memory, chunk by chunk, as by a program. */
async function* chunks(): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < BYTES; at += CHUNK)
    yield block.subarray(at % block.length, (at % block.length) + CHUNK)
}

async function hostTurns(folder: string): Promise<Turn[]> {
  const path = join(folder, 'big')
  const write = () => pipeline(Readable.from(chunks(), { objectMode: false }), createWriteStream(path))
  await write()
  return [
    {
      id: 'host.write100MiB',
      samples: 1,
      measure() {
        rmSync(path)
        return timed(write)
      },
    },
    {
      id: 'host.read100MiB',
      samples: 1,
      measure: () => timed(() => drain(createReadStream(path, { highWaterMark: CHUNK }))),
    },
  ]
}

/** A tar in each direction, the only way in Docker's API. */
async function dockerTurns(container: Files): Promise<Turn[]> {
  const write = () => container.write('/tmp/big', chunks(), BYTES)
  await write()
  return [
    { id: 'docker.write100MiB', samples: 1, measure: () => timed(write) },
    {
      id: 'docker.read100MiB',
      samples: 1,
      measure: () => timed(async () => drain(await container.read('/tmp/big'))),
    },
  ]
}

async function ourTurns(sandbox: Sandbox): Promise<Turn[]> {
  const write = () => sandbox.files.writeFile('big', chunks())
  await write()
  await assertSame(sandbox)
  return [
    {
      id: 'engine.write100MiB',
      samples: 1,
      async measure() {
        await sandbox.files.rm('big')
        return timed(write)
      },
    },
    {
      id: 'engine.read100MiB',
      samples: 1,
      measure: () => timed(async () => drain(await sandbox.files.readStream('big'))),
    },
  ]
}

async function assertSame(sandbox: Sandbox): Promise<void> {
  const hash = createHash('sha256')
  for await (const chunk of chunks()) hash.update(chunk)
  const { stdout } = await sandbox.runCommand({ cmd: 'sha256sum', args: ['big'] })
  if (!stdout.startsWith(hash.digest('hex'))) throw new Error('the file differs from what was written')
}

async function drain(stream: AsyncIterable<Uint8Array | string>): Promise<void> {
  let bytes = 0
  for await (const chunk of stream) bytes += chunk.length
  if (bytes < BYTES) throw new Error(`only ${bytes} bytes were read`)
}
