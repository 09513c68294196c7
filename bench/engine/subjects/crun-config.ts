/**
 * The strictest bundle that plain crun accepts, with everything done by crun: it compiles the filter and creates the
 * control groups.
 */
import { policyFor, type Rule } from '../../../packages/engine/src/isolators/oci/seccomp/allowed-calls.ts'
import { LIMITS, USER } from './subject.ts'

/** Above the ids of our own sandboxes, so that they do not overlap. */
const FIRST_ID = 0x70000000

export function crunConfig(rootfs: string, cgroupsPath: string): object {
  const ids = [{ containerID: 0, hostID: FIRST_ID, size: 65536 }]
  const mount = (destination: string, type: string, options: string[]) => ({
    destination,
    type,
    source: type,
    options: ['nosuid', ...options],
  })
  return {
    ociVersion: '1.0.2',
    hostname: 'box',
    process: {
      terminal: false,
      user: { uid: USER, gid: USER },
      cwd: '/',
      args: ['sleep', 'infinity'],
      env: ['PATH=/usr/bin:/bin'],
      capabilities: { bounding: [], permitted: [], effective: [], inheritable: [], ambient: [] },
      noNewPrivileges: true,
      rlimits: [
        { type: 'RLIMIT_NOFILE', soft: 4096, hard: 4096 },
        { type: 'RLIMIT_CORE', soft: 0, hard: 0 },
      ],
    },
    // Read-only and shared by all: cheaper than the overlay of each of our sandboxes.
    root: { path: rootfs, readonly: true },
    mounts: [
      mount('/proc', 'proc', ['nodev', 'noexec']),
      mount('/dev', 'tmpfs', ['noexec', 'mode=755', 'size=64k']),
      mount('/dev/pts', 'devpts', ['noexec', 'newinstance', 'ptmxmode=0666', 'mode=0620']),
      mount('/dev/shm', 'tmpfs', ['nodev', 'noexec', 'mode=1777', 'size=64m']),
      mount('/tmp', 'tmpfs', ['nodev', 'mode=1777', 'size=256m']),
      mount('/run', 'tmpfs', ['nodev', 'mode=755', 'size=8m']),
    ],
    linux: {
      namespaces: ['user', 'mount', 'pid', 'network', 'ipc', 'uts', 'cgroup'].map((type) => ({ type })),
      uidMappings: ids,
      gidMappings: ids,
      rootfsPropagation: 'private',
      cgroupsPath,
      resources: {
        memory: { limit: LIMITS.memoryBytes, swap: LIMITS.memoryBytes },
        pids: { limit: LIMITS.pids },
        cpu: { quota: LIMITS.cpus * 100_000, period: 100_000 },
      },
      seccomp: seccompProfile(),
      maskedPaths: [
        '/proc/acpi',
        '/proc/asound',
        '/proc/kcore',
        '/proc/keys',
        '/proc/sched_debug',
        '/proc/scsi',
        '/proc/timer_list',
      ],
      readonlyPaths: ['/proc/bus', '/proc/fs', '/proc/irq', '/proc/sys', '/proc/sysrq-trigger'],
    },
  }
}

/**
 * Our policy as an OCI profile. Several forbidden values, which libseccomp cannot express in one rule, are reduced to
 * the first.
 */
function seccompProfile(): object {
  const architecture = process.arch === 'arm64' ? 'aarch64' : 'x86_64'
  const { allow, rules, absent } = policyFor(architecture)
  return {
    defaultAction: 'SCMP_ACT_ERRNO',
    architectures: [`SCMP_ARCH_${architecture.toUpperCase()}`],
    syscalls: [
      { names: allow, action: 'SCMP_ACT_ALLOW' },
      { names: absent, action: 'SCMP_ACT_ERRNO', errnoRet: 38 },
      ...Object.entries(rules).flatMap(([name, rule]) =>
        argumentsOf(rule).map((args) => ({ names: [name], action: 'SCMP_ACT_ALLOW', args })),
      ),
    ],
  }
}

interface Argument {
  readonly index: number
  readonly value: number
  readonly valueTwo?: number
  readonly op: string
}

/** A libseccomp rule compares each argument once, so every combination becomes a rule. */
function argumentsOf({ cases }: Rule): Argument[][] {
  return cases.flatMap((checks) =>
    checks.reduce<Argument[][]>(
      (known, { arg, mask, in: allowed, notIn }) => {
        const choices: Argument[] = allowed?.map((value) =>
          mask === undefined
            ? { index: arg, value, op: 'SCMP_CMP_EQ' }
            : { index: arg, value: mask, valueTwo: value, op: 'SCMP_CMP_MASKED_EQ' },
        ) ?? [{ index: arg, value: notIn![0]!, op: 'SCMP_CMP_NE' }]
        return known.flatMap((before) => choices.map((choice) => [...before, choice]))
      },
      [[]],
    ),
  )
}
