import { readText } from '../../../read-files.ts'
import type { DaemonFacts } from '../daemon/daemon.ts'

/**
 * The highest resource limits on this machine. Without CAP_SYS_RESOURCE a limit cannot be raised, and Podman tries to
 * unless limits are set. Podman also lowers its own to the kernel's largest pid.
 */
export function limitsOfThisMachine({ kind }: DaemonFacts): { maxOpenFiles?: number; maxProcesses?: number } {
  const limits = readText('/proc/self/limits') ?? ''
  const hard = (name: string) => numberOr(new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, 'm').exec(limits)?.[1])
  const [files, processes] = [hard('Max open files'), hard('Max processes')]
  const numbers = numberOr((readText('/proc/sys/kernel/pid_max') ?? '').trim())
  const most = Math.min(processes ?? Infinity, numbers ?? Infinity)
  return { maxOpenFiles: files, maxProcesses: kind === 'podman' && Number.isFinite(most) ? most : undefined }
}

const numberOr = (text: string | undefined) => (text && /^\d+$/.test(text) ? Number(text) : undefined)
