import { SandboxError } from '@sandkasten/sdk'
import { hiddenInHost } from '../images/host/hidden.ts'
import { Daemon } from '../isolators/docker/daemon/daemon.ts'
import { findProgram } from '../isolators/oci/launch/find-program.ts'
import { checkedAllow } from '../isolators/open-network.ts'
import type { EngineProviderOptions } from './engine-provider.ts'

/** Which isolator was chosen, and why the stronger ones were not. */
export interface EngineDecision {
  readonly isolator: 'oci' | 'docker' | 'process'
  readonly reason: string
}

/** Chooses the isolator for these options. Throws if an option is invalid or no isolator works. */
export function decideIsolator(options: EngineProviderOptions): EngineDecision {
  const { isolator = 'auto' } = options
  checkedAllow(options.openNetwork?.allow ?? [])
  hiddenInHost(options.hostImage ?? {})
  if (isolator === 'process') return { isolator, reason: 'The options request it. It does not isolate.' }
  if (isolator === 'oci' || isolator === 'docker') return { isolator, reason: 'The options request it.' }
  if (isolator !== 'auto')
    throw new SandboxError('invalid_argument', `There is no isolator “${String(isolator)}”.`, {
      hint: 'Use auto, oci, docker or process.',
    })
  const missing = ociMissing(options.oci?.runtime)
  if (!missing) return { isolator: 'oci', reason: 'This is Linux with an OCI runtime.' }
  const daemon = new Daemon(options.docker)
  if (daemon.seemsThere) {
    const reason = `A Docker or Podman daemon is on ${daemon.where}. The isolator oci is stronger, but ${missing.reason}`
    return { isolator: 'docker', reason }
  }
  if (options.acceptNoIsolation)
    return { isolator: 'process', reason: `There is no isolation: ${missing.reason}` }
  throw new SandboxError('unsupported', `Nothing on this machine can isolate a sandbox: ${missing.reason}`, {
    hint: `${missing.fix} Or run without isolation, with the isolator “process”.`,
  })
}

/** Checks what is visible without starting anything. `probe` checks the rest when a sandbox is first needed. */
function ociMissing(runtime = 'crun'): { reason: string; fix: string } | undefined {
  if (process.platform !== 'linux')
    return { reason: `this is ${process.platform}, not Linux.`, fix: 'Use a Linux machine.' }
  try {
    findProgram(runtime)
    return undefined
  } catch {
    return { reason: `${runtime} is not installed.`, fix: `Run: apt-get install ${runtime}.` }
  }
}
