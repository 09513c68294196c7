import type { EngineProvider } from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'
import { identityOf } from '@sandkasten/sdk/internal'

/** Marks sandboxes with the process that owns them. `sandkasten run` removes those whose process is gone. */
export const ownerLabel = 'sandkasten.run'

export type TrialResult =
  | { readonly ok: true; readonly ms: number }
  /** `untried`: no image is available for the trial. */
  | { readonly ok: false; readonly untried: boolean; readonly error: unknown }

/** Runs a command in a temporary sandbox. Probes miss what the kernel or a daemon refuses. */
export async function tryIsolation(provider: EngineProvider): Promise<TrialResult> {
  const startedAt = performance.now()
  try {
    const sandbox = await provider.create({
      image: 'host',
      labels: { [ownerLabel]: JSON.stringify(await identityOf(process.pid)) },
    })
    try {
      const { exitCode, stderr } = await sandbox.runCommand({ cmd: 'ls', args: ['-d', '/usr/bin'] })
      if (exitCode !== 0) throw new Error(`its command failed: ${stderr.trim()}`)
    } finally {
      await sandbox.destroy()
    }
    return { ok: true, ms: Math.round(performance.now() - startedAt) }
  } catch (error) {
    // On a Docker daemon, the image `host` needs root and the local disk. Other images may work.
    const untried = provider.decision.isolator === 'docker' && SandboxError.is(error, 'unsupported')
    return { ok: false, untried, error }
  }
}
