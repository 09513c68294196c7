import { bootstrapOpencode, openWorktree, runAgent } from '@sandkasten/opencode'
import type { SandboxHandle } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type Surroundings, sh, surroundings } from './surroundings.ts'

const missing = await isolationMissing()

describe.skipIf(missing)(`a worktree for each thread${missing ? ` (${missing})` : ''}`, () => {
  let all: Surroundings
  let handle: SandboxHandle
  beforeAll(async () => {
    all = await surroundings()
    handle = await all.create()
  }, 60_000)
  afterAll(() => all?.close(), 60_000)

  it('two threads with one server change different files, and nothing in the repository', async () => {
    const [one, two] = await Promise.all(['one', 'two'].map((thread) => openWorktree(handle, { thread })))
    expect(one).toMatchObject({ branch: 'thread/one', created: true })
    const server = await bootstrapOpencode(handle, all.options)
    all.model.script = ({ prompt, answered }) =>
      answered === 0
        ? { tool: 'bash', args: { command: `echo ${prompt} > file.txt; pwd`, description: 'x' } }
        : { text: 'done' }
    await Promise.all(
      [one!, two!].map((tree, at) =>
        runAgent(handle, 'opencode', `thread${at}`, { server: { ...server, directory: tree.path } }),
      ),
    )
    const read = (folder: string) => sh(handle, `cat ${folder}/file.txt`)
    expect(await Promise.all([one!.path, two!.path, '/workspace'].map(read))).toEqual([
      'thread0\n',
      'thread1\n',
      'before\n',
    ])
    expect(await sh(handle, 'git status --porcelain')).toBe('')
    await server.stop()
  }, 60_000)

  it('is found again, refuses to lose work, and keeps its branch when it is removed', async () => {
    const found = await Promise.all([1, 2, 3].map(() => openWorktree(handle, { thread: 'one' })))
    expect(found.map(({ created }) => created)).toEqual([false, false, false])
    const [tree] = found
    await expect(tree!.remove()).rejects.toMatchObject({ code: 'conflict' })
    const author = '-c user.name=t -c user.email=t@example.com'
    await sh(handle, `cd ${tree!.path} && git ${author} commit -qam work`)
    expect(await tree!.remove()).toBe(true)
    expect(await tree!.remove()).toBe(false)
    const again = await openWorktree(handle, { thread: 'one' })
    expect(again.created).toBe(true)
    expect(await sh(handle, `cat ${again.path}/file.txt`)).toBe('thread0\n')
    const parallel = await Promise.all([1, 2, 3, 4].map(() => openWorktree(handle, { thread: 'new' })))
    expect(parallel.filter(({ created }) => created)).toHaveLength(1)
    const forced = await openWorktree(handle, { thread: 'two' })
    expect(await forced.remove({ force: true })).toBe(true)
  }, 60_000)

  it('says what is wrong', async () => {
    for (const thread of ['', '-x', 'a/b', 'a..b', 'x.lock', '$(touch x)'])
      await expect(openWorktree(handle, { thread })).rejects.toMatchObject({ code: 'invalid_argument' })
    await expect(openWorktree(handle, { directory: '/tmp', thread: 'x' })).rejects.toMatchObject({
      code: 'not_found',
    })
    await sh(handle, 'git init -q /tmp/empty')
    await expect(openWorktree(handle, { directory: '/tmp/empty', thread: 'x' })).rejects.toMatchObject({
      code: 'conflict',
    })
  })
})
