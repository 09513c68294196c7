import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { afterEach, describe, expect, it } from 'vitest'
import {
  hiddenFromRuntime,
  missingControllers,
  planGroups,
  prepareParents,
  readLayout,
  SandboxGroups,
} from './cgroups.ts'

const limits = { memoryBytes: 1e8, pids: 50, cpus: 0.5, tmpBytes: 1, shmBytes: 1, openFiles: 1 }
const line = (path: string, type: string, options: string) =>
  `30 25 0:26 / ${path} rw,nosuid - ${type} ${type} ${options}`

const v1 = ['memory', 'pids', 'freezer'].map((name) => line(`/sys/fs/cgroup/${name}`, 'cgroup', `rw,${name}`))
const joint = line('/sys/fs/cgroup/cpu,cpuacct', 'cgroup', 'rw,cpu,cpuacct')
const layouts = {
  v1: readLayout([...v1, joint].join('\n'), () => ''),
  v2: readLayout(line('/sys/fs/cgroup', 'cgroup2', 'rw,nsdelegate'), () => 'cpuset cpu io memory pids\n'),
  hybrid: readLayout(
    [...v1, joint, line('/sys/fs/cgroup/unified', 'cgroup2', 'rw')].join('\n'),
    () => 'hugetlb\n',
  ),
}

describe('layouts', () => {
  it.each(['v1', 'v2', 'hybrid'] as const)('%s has all required controllers', (name) => {
    expect(missingControllers(layouts[name])).toEqual([])
  })

  it('v1: one group per hierarchy, one group for two controllers that share a hierarchy, and a freezer', () => {
    const groups = planGroups(layouts.v1, 'parent', limits)
    expect(groups.map(({ parent, oom, freezer }) => [parent, oom, freezer])).toEqual([
      ['/sys/fs/cgroup/memory/parent', 1, null],
      ['/sys/fs/cgroup/pids/parent', null, null],
      ['/sys/fs/cgroup/cpu,cpuacct/parent', null, null],
      ['/sys/fs/cgroup/freezer/parent', null, 1],
    ])
    expect(hiddenFromRuntime(layouts.v1)).toEqual([])
  })

  it('v2: one group', () => {
    const [group, ...more] = planGroups(layouts.v2, 'parent', limits)
    expect(more).toEqual([])
    expect(group).toMatchObject({ parent: '/sys/fs/cgroup/parent', oom: 2, freezer: 2 })
    expect(group!.files.map(({ name, value }) => `${name}=${value}`)).toEqual([
      'memory.max=100000000',
      'memory.swap.max=0',
      'pids.max=50',
      'cpu.max=50000 100000',
    ])
    expect(hiddenFromRuntime(layouts.v2)).toEqual([])
  })

  it('hybrid: limits in v1, freezing in v2, and v2 is hidden from the runtime', () => {
    const paths = planGroups(layouts.hybrid, 'parent', limits).map(({ parent }) => parent)
    expect(paths).toContain('/sys/fs/cgroup/unified/parent')
    expect(paths).not.toContain('/sys/fs/cgroup/freezer/parent')
    expect(hiddenFromRuntime(layouts.hybrid)).toEqual(['/sys/fs/cgroup/unified'])
  })

  it('a missing controller is an error, not a sandbox without that limit', () => {
    const poor = readLayout(v1.slice(1).join('\n'), () => '')
    expect(missingControllers(poor)).toEqual(['memory', 'cpu'])
    expect(() => planGroups(poor, 'parent', limits)).toThrow(SandboxError)
  })
})

describe('a v2 tree of plain files', () => {
  let root: string
  afterEach(() => rmSync(root, { recursive: true, force: true }))

  it('is delegated, read and frozen', async () => {
    root = mkdtempSync(join(tmpdir(), 'cgroup-'))
    const layout = { v1: {}, v2: { root, controllers: ['cpu', 'memory', 'pids'] } }
    mkdirSync(join(root, 'parent/box'), { recursive: true })
    writeFileSync(join(root, 'cgroup.subtree_control'), 'cpu memory pids')
    writeFileSync(join(root, 'parent/cgroup.subtree_control'), '')
    prepareParents(layout, 'parent')
    expect(readFileSync(join(root, 'cgroup.subtree_control'), 'utf8')).toBe('cpu memory pids')
    expect(readFileSync(join(root, 'parent/cgroup.subtree_control'), 'utf8')).toBe('+memory +pids +cpu')
    const files = {
      'memory.current': '4096\n',
      'memory.max': 'max\n',
      'memory.events': 'low 0\noom 2\noom_kill 1\n',
      'pids.current': '3\n',
      'pids.events': 'max 7\n',
      'cpu.stat': 'usage_usec 1234\nuser_usec 1\nthrottled_usec 55\n',
      'cgroup.events': 'populated 1\nfrozen 1\n',
    }
    for (const [name, text] of Object.entries(files)) writeFileSync(join(root, 'parent/box', name), text)
    const groups = new SandboxGroups(layout, 'parent', 'box')
    expect(groups.stats()).toEqual({
      memoryBytes: 4096,
      pids: 3,
      cpuUsec: 1234,
      throttledUsec: 55,
      oomKills: 1,
      pidsRefused: 7,
    })
    await groups.freeze(true)
    expect(readFileSync(join(root, 'parent/box/cgroup.freeze'), 'utf8')).toBe('1')
  })
})
