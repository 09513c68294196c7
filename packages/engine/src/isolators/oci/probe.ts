import { accessSync, constants } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { readText } from '../../read-files.ts'
import type { ProbeResult } from '../isolator.ts'
import { findRuntime, type Runtime, type RuntimeKind, versionOf } from './launch/runtime.ts'
import { groupRoots, layoutOfThisMachine, missingControllers } from './limits/cgroups.ts'
import type { Privileges } from './privileges/privileges.ts'
import { probeAccount } from './privileges/probe-account.ts'
import type { Architecture } from './seccomp/allowed-calls.ts'

/** Checks the isolator's needs one by one. Reports the first that is missing, and how to fix it. */
export async function probe(options: {
  runner: string
  runtime: string
  runtimeKind?: RuntimeKind
  privileges: Privileges
}): Promise<ProbeResult> {
  if (process.platform !== 'linux')
    return no(`this is ${process.platform}, not Linux`, 'Use the isolator `process`, or a Linux machine.')
  if (!architectures[process.arch])
    return no(`no seccomp table for ${process.arch}`, 'Use an x86-64 or arm64 machine.')
  const [major = 0, minor = 0] = (readText('/proc/sys/kernel/osrelease') ?? '').split('.').map(Number)
  const { privileges } = options
  if (privileges.kind === 'root' && (major < 5 || (major === 5 && minor < 19))) {
    return no(`Linux ${major}.${minor} cannot id-map the layers of an overlay`, 'Boot Linux 5.19 or newer.')
  }
  if (!(readText('/proc/filesystems') ?? '').includes('\toverlay\n'))
    return no('overlayfs is not available', 'Run: modprobe overlay')
  if (readText('/proc/sys/user/max_user_namespaces')?.trim() === '0') {
    return no('user namespaces are disabled', 'Run: sysctl -w user.max_user_namespaces=10000')
  }
  const groups = privileges.kind === 'root' ? probeGroups() : undefined
  if (groups) return groups
  let runtime: Runtime
  let version: string
  try {
    runtime = await findRuntime(options.runtime, options.runtimeKind, privileges.kind)
    version = await versionOf(options.runtime)
  } catch (cause) {
    const { message, hint = '' } = cause as SandboxError
    return no(message, hint)
  }
  try {
    accessSync(options.runner, constants.X_OK)
  } catch {
    return no(`there is no runner at ${options.runner}`, 'Run: runner/build.sh')
  }
  const detail = `${version}, Linux ${major}.${minor}`
  if (privileges.kind !== 'root') return probeAccount({ ...options, runtime }, detail)
  const { v1, v2 } = layoutOfThisMachine()
  const where = v2 ? (v1.memory === undefined ? 'cgroup v2' : 'hybrid cgroup v1 and v2') : 'cgroup v1'
  return { ok: true, detail: `${detail}, ${where}` }
}

function probeGroups(): ProbeResult | undefined {
  const layout = layoutOfThisMachine()
  const missing = missingControllers(layout)
  if (missing.length > 0)
    return no(`no control group controller for ${missing.join(', ')}`, 'Boot with cgroup_enable=memory.')
  try {
    // As root this fails only if control groups are mounted read-only, as in most containers.
    for (const root of groupRoots(layout)) accessSync(root, constants.W_OK)
    return undefined
  } catch (cause) {
    return no(
      `cannot create control groups: ${(cause as Error).message}`,
      'Run on the host, or in a container with its own writable cgroup.',
    )
  }
}

const architectures: Readonly<Record<string, Architecture>> = { x64: 'x86_64', arm64: 'aarch64' }

export function thisArchitecture(): Architecture {
  const architecture = architectures[process.arch]
  if (architecture) return architecture
  throw new SandboxError('unsupported', `there is no seccomp table for ${process.arch}`)
}

/** Without CAP_SYS_RESOURCE a limit can only be lowered. */
export function maxOpenFiles(): number {
  const hard = /^Max open files\s+\S+\s+(\d+)/m.exec(readText('/proc/self/limits') ?? '')?.[1]
  return hard === undefined ? 1024 : Number(hard)
}

const no = (reason: string, fix: string): ProbeResult => ({ ok: false, reason, fix })
