import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Isolator, IsolatorSpec, ProbeResult } from '../../isolator.ts'

const MiB = 1024 * 1024

/**
 * Tests whether this gVisor works on this kernel by starting a sandbox, because its version does not tell. Removes
 * the sandbox.
 */
export async function probeGvisor(
  isolator: Pick<Isolator, 'start' | 'remove'>,
  runtime: string,
  detail: string,
): Promise<ProbeResult> {
  const folder = mkdtempSync(join(tmpdir(), 'sandkasten-probe-'))
  const spec: IsolatorSpec = {
    sandboxId: `probe-${randomBytes(8).toString('hex')}`,
    folder: join(folder, 'sandbox'),
    image: 'host',
    env: {},
    mounts: [],
    network: 'none',
    workdir: '/workspace',
    hostname: 'probe',
    limits: {
      memoryBytes: 128 * MiB,
      pids: 64,
      cpus: 1,
      tmpBytes: MiB,
      shmBytes: MiB,
      openFiles: 1024,
    },
  }
  try {
    await isolator.start(spec)
    return { ok: true, detail }
  } catch (cause) {
    return useless(runtime, detail, (cause as Error).message)
  } finally {
    await isolator.remove(spec)
    rmSync(folder, { recursive: true, force: true })
  }
}

function useless(runtime: string, detail: string, why: string): ProbeResult {
  return {
    ok: false,
    reason: `${runtime} (${detail}) does not work here: ${why.trim().split('\n', 1)[0]}`,
    fix: 'Install a newer runsc (from Debian 13 or gVisor’s releases; it needs no libraries) and pass its path: --runtime /path/to/runsc.',
  }
}
