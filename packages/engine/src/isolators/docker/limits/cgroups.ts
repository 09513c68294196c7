import { basename, dirname } from 'node:path'
import { readText } from '../../../read-files.ts'
import { layoutOfThisMachine, SandboxGroups } from '../../oci/limits/cgroups.ts'

/** The control groups of a container on this machine. Undefined if its process runs on another machine. */
export function groupsOf(pid: number, containerId: string): SandboxGroups | undefined {
  const lines = readText(`/proc/${pid}/cgroup`)?.split('\n') ?? []
  const paths = lines.map((line) => {
    const [, controllers = '', ...path] = line.split(':')
    return { controllers: controllers.split(','), path: path.join(':') }
  })
  const { v1, v2 } = layoutOfThisMachine()
  const inV1 = v1.memory !== undefined
  const own = paths.find(({ controllers }) => controllers.includes(inV1 ? 'memory' : ''))?.path
  // A pid may belong to another machine. The group's name proves that it is this one.
  if (own === undefined || !own.includes(containerId)) return undefined
  return new SandboxGroups(inV1 ? { v1 } : { v1: {}, v2 }, dirname(own), basename(own))
}

/**
 * Compares PID 1 with the requested restrictions, as the kernel reports them, and returns the first difference. This
 * detects a daemon that ignores a setting. Undefined if all match or the daemon runs on another machine.
 */
export function weaknessOf(pid: number, containerId: string): string | undefined {
  if (!readText(`/proc/${pid}/cgroup`)?.includes(containerId)) return undefined
  const status = readText(`/proc/${pid}/status`) ?? ''
  for (const [name, expected] of Object.entries(EXPECTED)) {
    const value = new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)?.[1]
    if (value !== expected) return `PID 1 runs with ${name} ${value ?? 'unknown'}, not ${expected}`
  }
  return undefined
}

const RUNNER = '00000000000000e0'
const NONE = '0000000000000000'
const EXPECTED = {
  Seccomp: '2',
  NoNewPrivs: '1',
  CapBnd: RUNNER,
  CapPrm: RUNNER,
  CapEff: RUNNER,
  CapAmb: NONE,
}
