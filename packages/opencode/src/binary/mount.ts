import { existsSync, readFileSync } from 'node:fs'
import { type AgentName, agentOf } from '../agents/index.ts'
import { installedBinary } from './host-binary.ts'
import { mountFolder } from './inspect.ts'

/** For `providerOptions.mounts` of the engine. */
export interface AgentMount {
  readonly source: string
  readonly target: string
}

/**
 * Shows the agent's program of this machine in a sandbox of the engine, read-only. A bootstrap then copies nothing.
 * Undefined: no package with this version of it is installed on this machine.
 */
export function agentMount(name: AgentName, options: { version?: string } = {}): AgentMount | undefined {
  const agent = agentOf(name)
  const { version = agent.version } = options
  const { arch } = process
  if (arch !== 'x64' && arch !== 'arm64') return undefined
  const libc = existsSync('/lib/ld-musl-x86_64.so.1') || existsSync('/lib/ld-musl-aarch64.so.1')
  const installed = installedBinary(agent, version, { arch, libc: libc ? 'musl' : 'glibc', avx2: hasAvx2() })
  return installed && { source: installed.file, target: `${mountFolder}/${agent.program}` }
}

function hasAvx2(): boolean {
  try {
    return /^flags.*\bavx2\b/m.test(readFileSync('/proc/cpuinfo', 'utf8'))
  } catch {
    return false
  }
}
