/** opencode in sandboxes of the engine: bootstrapped in a new one, and in one from a snapshot that has it. */
import { availableParallelism } from 'node:os'
import { agentMount, type BootstrapOpencodeOptions, bootstrapOpencode } from '@sandkasten/opencode'
import type { CreateSandboxOpts } from '@sandkasten/sdk'
import type { Ours, Sandbox } from '../engine/subjects/ours.ts'
import { type Turn, timed } from '../measure.ts'
import { config } from './home.ts'

/** All processors, as on the bare host. */
const size: CreateSandboxOpts = { resources: { memoryMb: 1536, vcpus: availableParallelism() } }

export const PHASES = ['inspect', 'copy', 'start'] as const

/** A sandbox in which to bootstrap. */
interface Way {
  readonly name: string
  readonly create: CreateSandboxOpts
}

export interface SandboxTurns {
  readonly turns: readonly Turn[]
  /** Milliseconds by id. Samples that are measured together are in one turn. */
  readonly more: ReadonlyMap<string, number[]>
  close(): Promise<unknown>
}

export async function sandboxTurns(ours: Ours): Promise<SandboxTurns> {
  const mounts = [agentMount('opencode')]
  const snapshotId = await snapshotWithOpencode(ours)
  const more = new Map<string, number[]>()
  const ways: Way[] = [
    { name: 'plain', create: size },
    { name: 'mounted', create: { ...size, providerOptions: { mounts } } },
    { name: 'resumed', create: { ...size, snapshotId } },
  ]
  return {
    turns: ways.map((way) => turnOf(ours, way, more)),
    more,
    close: () => ours.deleteSnapshot(snapshotId),
  }
}

function turnOf(ours: Ours, { name, create }: Way, more: Map<string, number[]>): Turn {
  let calls = 0
  return {
    id: `${name}.bootstrap`,
    samples: 1,
    async measure() {
      let sandbox: Sandbox | undefined
      const stages: Array<{ stage: string; at: number }> = []
      try {
        const createMs = await timed(async () => {
          sandbox = await ours.create(create)
        })
        const startedAt = performance.now()
        const ms = await timed(() => bootstrap(sandbox!, { onProgress: ({ stage }) => note(stage) }))
        function note(stage: string) {
          stages.push({ stage, at: performance.now() - startedAt })
        }
        calls += 1
        // The first call of each turn does not count.
        if (calls % 2 === 1) return ms
        add(`${name}.create+bootstrap`, createMs + ms)
        for (const [index, { stage, at }] of stages.entries()) {
          const end = stages[index + 1]?.at ?? ms
          if (stage === 'inspect' || stage === 'copy') add(`${name}.${stage}`, end - at)
          if (stage === 'start') add(`${name}.start`, ms - at)
        }
        return ms
      } finally {
        if (sandbox) await ours.destroy(sandbox)
      }
    },
  }
  function add(id: string, ms: number) {
    more.set(id, [...(more.get(id) ?? []), ms])
  }
}

async function snapshotWithOpencode(ours: Ours): Promise<string> {
  const sandbox = await ours.create(size)
  try {
    await (await bootstrap(sandbox)).stop()
    await sandbox.stop()
    return (await sandbox.snapshot()).snapshotId
  } finally {
    await sandbox.destroy()
  }
}

async function bootstrap(sandbox: Sandbox, options: BootstrapOpencodeOptions = {}) {
  const server = await bootstrapOpencode(sandbox, { config, ...options })
  if (server.reused) throw new Error('A server was already running in the sandbox.')
  return server
}
