import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'
import { delegatedLayout, prepareDelegation } from '../limits/account-cgroups.ts'
import { kernelLimits } from '../limits/kernel-limits.ts'
import { accountOf } from './account.ts'
import { accountPrivileges } from './privileges.ts'
import { explain } from './probe-account.ts'

const ann = { uid: 1001, gid: 1002, name: 'ann' }
const subids = 'bob:100000:65536\nann:165536:65536\n'

describe('an account', () => {
  it('has a range if one is assigned by name or number and the mapping programs exist', () => {
    expect(accountOf(ann, subids, subids, true)).toMatchObject({ mode: 'range', firstUid: 165536, lacks: [] })
    expect(accountOf(ann, '1001:300000:65536', subids, true)).toMatchObject({
      firstUid: 300000,
      firstGid: 165536,
    })
  })

  it.each([
    ['none', '', '', true, 'usermod --add-subuids 100000-165535 --add-subgids 100000-165535 ann'],
    ['only another account has a range', 'bob:100000:65536', '', true, 'usermod --add-subuids 165536-231071'],
    ['the range is too small', 'ann:100000:1000', subids, true, 'usermod --add-subuids'],
    ['there are no subordinate group ids', subids, '', true, 'usermod --add-subuids'],
    ['the range contains the host’s root', 'ann:0:65536', subids, true, 'usermod'],
    ['the mapping programs are missing', subids, subids, false, 'apt-get install uidmap'],
  ])('otherwise has only its own id, and reports the fix: %s', (_, subuid, subgid, tools, fix) => {
    const account = accountOf(ann, subuid, subgid, tools)
    expect(account.mode).toBe('own')
    expect(account.lacks.map((one) => one.fix).join('; ')).toContain(fix)
  })

  it('is root in its own namespace, where the ids of its sandboxes are mapped', () => {
    const range = accountPrivileges(accountOf(ann, subids, subids, true))
    expect(range.command('/runner', '/bin/rm', '-rf', 'x')).toEqual(
      '/runner within --uids 0:1001:1,1:165536:65536 --gids 0:1002:1,1:165536:65536 -- /bin/rm -rf x'.split(
        ' ',
      ),
    )
    const own = accountPrivileges(accountOf(ann, '', '', true))
    expect(own.command('/runner', 'true')).toEqual(
      '/runner within --uids 0:1001:1 --gids 0:1002:1 -- true'.split(' '),
    )
  })

  it('reports the weakness for each missing feature', () => {
    const own = accountPrivileges(accountOf(ann, '', '', true))
    const all = own.weaker({ v1: {} }).join(' ')
    for (const word of ['account itself', 'Memory', 'Processes', 'processor', 'signals'])
      expect(all).toContain(word)
    const delegated = { v1: {}, v2: { root: '/x', controllers: ['memory', 'pids', 'cpu'] } }
    const range = accountPrivileges(accountOf(ann, subids, subids, true))
      .weaker(delegated)
      .join(' ')
    for (const word of ['Memory', 'Processes', 'processor', 'signals']) expect(range).not.toContain(word)
  })

  it('has no control group without delegation', () => {
    expect(delegatedLayout('/proc/self/no-such-folder')).toEqual({ v1: {} })
  })

  it('in a delegated group, moves all processes to a child before it enables controllers', () => {
    const root = mkdtempSync(join(tmpdir(), 'sandkasten-delegated-'))
    try {
      const file = (...names: string[]) => join(root, ...names)
      writeFileSync(file('cgroup.controllers'), 'cpu memory pids hugetlb\n')
      writeFileSync(file('cgroup.procs'), '4711\n')
      writeFileSync(file('cgroup.subtree_control'), '')
      const layout = delegatedLayout(root)
      expect(layout.v2).toEqual({ root, controllers: ['cpu', 'memory', 'pids', 'hugetlb'] })
      // A second call finds the same group.
      expect(delegatedLayout(file('sandkasten-engine'))).toEqual(layout)
      prepareDelegation(layout, 'boxes')
      expect(readFileSync(file('sandkasten-engine/cgroup.procs'), 'utf8')).toBe('4711')
      for (const folder of ['.', 'boxes'])
        expect(readFileSync(file(folder, 'cgroup.subtree_control'), 'utf8')).toBe('+memory +pids +cpu')
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  })

  it('uses other limits if a controller is missing', () => {
    const limits = { memoryBytes: 1e8, pids: 50, cpus: 1, tmpBytes: 1e6, shmBytes: 1e6, openFiles: 1024 }
    expect(kernelLimits('range', 'crun', limits, []).runner).not.toHaveProperty('processes')
    const { runner } = kernelLimits('range', 'crun', limits, ['memory', 'pids'])
    expect(runner).toMatchObject({ processes: 58, dataBytes: 1e8 })
  })
})

describe('explanations of failures', () => {
  it.each([
    ['kernel/unprivileged_userns_clone', '0', 'unprivileged_userns_clone=1'],
    ['kernel/apparmor_restrict_unprivileged_userns', '1\n', 'apparmor_restrict_unprivileged_userns=0'],
    ['user/max_user_namespaces', '0', 'max_user_namespaces='],
  ])('the switch %s', (file, value, fix) => {
    const found = explain('user namespace: Operation not permitted', (name) =>
      name === file ? value : undefined,
    )
    expect(found.reason).toContain(file)
    expect(found.fix).toContain(fix)
  })

  it('reports a range that cannot be mapped, and other errors, with the program’s own output', () => {
    expect(explain('newuidmap: exit status: 1', () => '1000').fix).toContain('/etc/subuid')
    expect(explain('/proc: Operation not permitted', () => '1000').reason).toContain('/proc: Operation')
  })
})

it('an account without a name in /etc/passwd is known by its number', async ({ skip }) => {
  if (process.getuid?.() !== 0) skip('needs root, to become another account')
  const code = `import('${import.meta.dirname}/account.ts').then(({ thisAccount }) => console.log(thisAccount().name))`
  const args = ['--conditions=sandkasten-source', '-e', code]
  const options = {
    uid: 54_321,
    gid: 54_321,
    cwd: '/',
    env: { PATH: process.env.PATH, NODE_NO_WARNINGS: '1' },
  }
  const readable = spawnSync('test', ['-r', `${import.meta.dirname}/account.ts`], options).status === 0
  if (!readable) skip('needs a checkout that other accounts can read')
  const { stdout } = await promisify(execFile)(process.execPath, args, options)
  expect(stdout).toBe('54321\n')
})
