import { describe, expect, it } from 'vitest'
import type { IsolatorSpec } from '../isolator.ts'
import { ociConfig } from './config.ts'
import { shimSetup, shimTask } from './launch/shim-task.ts'
import type { CgroupLayout } from './limits/cgroups.ts'
import { placesOf } from './places.ts'
import { IdRanges } from './privileges/id-ranges.ts'
import { insideRange } from './privileges/inside-ids.ts'
import { rootPrivileges } from './privileges/privileges.ts'

const spec: IsolatorSpec = {
  sandboxId: 'abc',
  folder: '/state/abc',
  image: 'host',
  env: { TOKEN: 'secret' },
  limits: { memoryBytes: 2 ** 28, pids: 100, cpus: 1.5, tmpBytes: 1e6, shmBytes: 2e6, openFiles: 1e6 },
  mounts: [{ source: '/data', target: '/mnt/data' }],
  network: 'none',
  workdir: '/workspace',
  hostname: 'box',
}

const hybrid: CgroupLayout = {
  v1: { memory: '/cg/memory', pids: '/cg/pids', cpu: '/cg/cpu', freezer: '/cg/freezer' },
  v2: { root: '/cg/unified', controllers: ['hugetlb'] },
}

const privileges = rootPrivileges(new IdRanges())

// biome-ignore lint/suspicious/noExplicitAny: the document is checked field by field
const config = (changes: object = {}): any =>
  ociConfig({
    spec,
    firstId: 0x10000000,
    inside: insideRange,
    runnerLimits: { processes: 40 },
    stage: '/stage',
    runtime: 'crun',
    architecture: 'x86_64',
    binds: [],
    hidden: [],
    maxOpenFiles: 20000,
    ...changes,
  })

const task = (changes: Partial<IsolatorSpec> = {}) =>
  shimTask({
    privileges,
    spec: { ...spec, ...changes },
    places: placesOf(spec, '/run/sandkasten'),
    firstId: 0x10000000,
    image: { layers: ['/layer'], binds: [{ source: '/usr', target: '/usr' }], hidden: [] },
    layout: hybrid,
    cgroupParent: 'sandkasten',
    stage: '/run/sandkasten/stage',
    runtime: 'crun',
    pasta: '/usr/bin/pasta',
    architecture: 'x86_64',
    maxOpenFiles: 20000,
    openNetwork: {},
    volatile: true,
    readyTimeoutMs: 1000,
    // biome-ignore lint/suspicious/noExplicitAny: as above
  }) as any

describe('config.json', () => {
  it('gives every namespace, and maps no id of the host’s own users', () => {
    const { linux } = config()
    const types = (namespaces: { type: string }[]) => namespaces.map(({ type }) => type).sort()
    const all = ['cgroup', 'ipc', 'mount', 'network', 'pid', 'user', 'uts']
    // Without a network, the runtime starts in an empty network namespace.
    expect(types(linux.namespaces)).toEqual(all.filter((type) => type !== 'network'))
    // The shim creates only the user namespace.
    const joined = (namespaces: object[]) => namespaces.filter((namespace) => 'path' in namespace)
    expect(joined(linux.namespaces)).toEqual([{ type: 'user', path: '/stage/userns' }])
    const open = config({ spec: { ...spec, network: 'open' } }).linux
    expect(types(open.namespaces)).toEqual(all)
    const network = { type: 'network', path: '/stage/network' }
    expect(joined(open.namespaces)).toEqual([{ type: 'user', path: '/stage/userns' }, network])
    const onRunc = config({ spec: { ...spec, network: 'open' }, runtime: 'runc' }).linux
    expect(joined(onRunc.namespaces)).toEqual([network])
    expect(open.sysctl).toBeUndefined()
    expect(joined(config({ runtime: 'runsc' }).linux.namespaces)).toEqual([])
    const ids = [{ containerID: 0, hostID: 0x10000000, size: 65536 }]
    expect([linux.uidMappings, linux.gidMappings]).toEqual([ids, ids])
  })

  it('gives three capabilities to the runner and none to other processes', () => {
    const { process } = config()
    const { inheritable, ambient, ...sets } = process.capabilities
    expect([inheritable, ambient]).toEqual([[], []])
    for (const set of Object.values(sets)) expect(set).toEqual(['CAP_KILL', 'CAP_SETGID', 'CAP_SETUID'])
    expect(insideRange.capabilityBits).toBe((1 << 5) | (1 << 6) | (1 << 7))
    expect(process.noNewPrivileges).toBe(true)
    expect(process.terminal).toBe(false)
  })

  it('contains the filter and the hidden and read-only paths', () => {
    const { annotations, linux, mounts } = config()
    expect(Buffer.from(annotations['run.oci.seccomp_bpf_data'], 'base64').length).toBeGreaterThan(800)
    expect(linux.maskedPaths).toEqual(
      expect.arrayContaining(['/proc/kcore', '/proc/keys', '/proc/timer_list']),
    )
    expect(linux.readonlyPaths).toEqual(
      expect.arrayContaining(['/proc/sys', '/proc/sysrq-trigger', '/proc/irq', '/proc/bus']),
    )
    expect(mounts[0]).toMatchObject({ destination: '/proc', options: expect.arrayContaining(['ro']) })
    expect(config({ runtime: 'runc' }).linux.readonlyPaths).toEqual(['/proc'])
    expect(config({ architecture: 'aarch64' }).annotations).not.toEqual(annotations)
  })

  it('mounts no sysfs, no cgroups, and nothing without nosuid', () => {
    const binds = [{ name: 'bind-0', target: '/usr', readOnly: true, exec: true }]
    const { mounts } = config({ binds })
    for (const mount of mounts) expect(mount.options).toContain('nosuid')
    expect(mounts.map(({ type }: { type: string }) => type)).not.toContain('sysfs')
    expect(mounts.map(({ type }: { type: string }) => type)).not.toContain('cgroup')
    expect(mounts.find(({ destination }: { destination: string }) => destination === '/usr').options).toEqual(
      expect.arrayContaining(['ro', 'nodev']),
    )
    expect(
      mounts.find(({ destination }: { destination: string }) => destination === '/tmp').options,
    ).toContain('size=1000000')
    expect(
      mounts.find(({ destination }: { destination: string }) => destination === '/dev/shm').options,
    ).toContain('size=2000000')
  })

  it('requests no limit above the host’s maximum or below the runner’s needs', () => {
    const limitsOf = (changes?: object) => {
      const { args } = config(changes).process
      return args.filter((_: string, index: number) => args[index - 1] === '--limit')
    }
    expect(limitsOf()).toEqual(['openFiles=20000', 'coreBytes=0', 'processes=40'])
    expect(config().process.rlimits).toBeUndefined()
    expect(config().process.oomScoreAdj).toBeGreaterThan(0)
    const small = { ...spec, limits: { ...spec.limits, openFiles: 100 } }
    expect(limitsOf({ spec: small })).toContain('openFiles=1024')
    // gVisor's own kernel enforces these.
    const { args, rlimits } = config({ spec: small, runtime: 'runsc' }).process
    expect(args).not.toContain('openFiles=1024')
    expect(rlimits).toContainEqual({ type: 'RLIMIT_NOFILE', soft: 1024, hard: 1024 })
  })
})

describe('a task', () => {
  it('shares only programs and extra mounts, read-only', () => {
    const { binds } = task()
    expect(binds.map(({ source, readOnly, idMapped }: never) => [source, readOnly, idMapped])).toEqual([
      ['/usr', true, false],
      ['/data', true, true],
    ])
  })

  it('contains the limits of every control group', () => {
    expect(task().groups).toEqual([
      {
        parent: '/cg/memory/sandkasten',
        oom: 1,
        freezer: null,
        files: [
          { name: 'memory.limit_in_bytes', value: '268435456', optional: false },
          { name: 'memory.memsw.limit_in_bytes', value: '268435456', optional: true },
          { name: 'memory.kmem.tcp.limit_in_bytes', value: '67108864', optional: true },
        ],
      },
      {
        parent: '/cg/pids/sandkasten',
        oom: null,
        freezer: null,
        files: [{ name: 'pids.max', value: '100', optional: false }],
      },
      {
        parent: '/cg/cpu/sandkasten',
        oom: null,
        freezer: null,
        files: [
          { name: 'cpu.cfs_period_us', value: '100000', optional: false },
          { name: 'cpu.cfs_quota_us', value: '150000', optional: false },
        ],
      },
      { parent: '/cg/unified/sandkasten', oom: null, freezer: 2, files: [] },
    ])
    const setup = {
      runtime: { kind: 'crun', program: '/usr/bin/crun' },
      runner: '/opt/runner',
      stage: '/stage',
      layout: hybrid,
      machine: hybrid,
      cgroupParent: 'sandkasten',
      privileges,
    } as const
    expect(shimSetup(setup)).toMatchObject({
      groups: task().groups.map(({ parent }: { parent: string }) => parent),
      hide: ['/cg/unified'],
    })
  })

  it('connects a network only on request, and adds pasta’s own use to the limits', () => {
    expect(task().network).toBeNull()
    const open = task({ network: 'open' })
    expect(open.network.argv).toEqual(
      expect.arrayContaining(['--no-map-gw', '--tcp-ports', 'none', '--tcp-ns', '--udp-ns']),
    )
    expect(open.network.user).toBe(0x1000ffff)
    expect(Number(open.groups[0].files[0].value)).toBeGreaterThan(268435456)
    expect(open.groups[1].files[0].value).toBe('101')
  })
})
