import { readdirSync } from 'node:fs'
import { mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { brokerCaller, brokerPlace } from '@sandkasten/mcp/broker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { connectAgent } from './agent.ts'
import { end, isAlive, type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()

describe.skipIf(missing)('the broker', () => {
  let place: McpPlace
  beforeAll(async () => {
    place = await mcpPlace()
  })
  afterAll(() => place?.close())

  const agent = (args: readonly string[] = []) => connectAgent(place, args)

  it('is started once by many agents, and ends when it is idle', async () => {
    const agents = await Promise.all([agent(), agent(), agent()])
    const texts = await Promise.all(agents.map((one) => one.call('run_command', { cmd: 'echo $((6*7))' })))
    expect(texts.map(({ text }) => text)).toEqual(Array(3).fill('exit=0\n42\n'))
    for (const one of agents) await one[Symbol.asyncDispose]()
    const { socket, folder } = brokerPlace(path.join(place.env.SANDKASTEN_HOME!, 'registry'))
    expect((await stat(socket)).mode & 0o777).toBe(0o600)
    expect((await stat(folder)).mode & 0o777).toBe(0o700)
    const pid = (await place.brokerPid())!
    const second = await place.mcp(['broker', '--idle-exit', '1s'])
    expect(second).toMatchObject({ code: 0, stdout: 'ready\n' })
    await end(pid)
    const idle = await place.mcp(['broker', '--idle-exit', '1s'])
    expect(idle.code).toBe(0)
    await expect(stat(socket)).rejects.toThrow('ENOENT')
  })

  it('killed during a call: the agent learns it, and the next call starts another', async () => {
    await using one = await agent()
    await one.call('run_command', { cmd: 'true' })
    const before = (await place.brokerPid())!
    const mark = `5${Date.now() % 1e6}`
    const running = one.call('run_command', { cmd: `echo begun > begun; sleep ${mark}` })
    await one.call('run_command', { cmd: 'until [ -e begun ]; do sleep 0.05; done; rm begun' })
    await end(before, 'SIGKILL')
    expect(await running).toMatchObject({
      isError: true,
      text: expect.stringMatching(
        /^Error: The .*broker .*during this call.* status lists it, and read_process/,
      ),
    })
    const { text } = await one.call('status')
    const execId = /^- (\S+)/m.exec(text)![1]
    expect(await place.brokerPid()).not.toBe(before)
    expect((await one.call('stop_process', { execId, signal: 'SIGKILL' })).text).toContain('ended')
  })

  it('stopped, so that it does not answer: the call ends after its silence', async () => {
    await using one = await agent()
    await one.call('run_command', { cmd: 'true' })
    const pid = (await place.brokerPid())!
    process.kill(pid, 'SIGSTOP')
    try {
      const startedAt = Date.now()
      const { text, isError } = await one.call('run_command', { cmd: 'true' })
      expect(isError).toBe(true)
      expect(text).toContain('has not answered for 20 seconds')
      expect(Date.now() - startedAt).toBeLessThan(30_000)
    } finally {
      process.kill(pid, 'SIGCONT')
    }
  })

  it.each([['stopped', ['stop', 'web', '--force'], /was stopped and started again/]])(
    'the sandbox %s during a call: an error with its state, then the news',
    async (_, args, news) => {
      await using one = await agent()
      await one.call('run_command', { cmd: 'echo kept > kept' })
      const running = one.call('run_command', { cmd: 'touch begun; sleep 100' })
      await one.call('run_command', { cmd: 'until [ -e begun ]; do sleep 0.05; done; rm begun' })
      await place.ok(args)
      const { text, isError } = await running
      expect(isError).toBe(true)
      expect(text).toMatch(/The command may have done part of its work\.[\s\S]*The sandbox “web” is stopped/)
      const next = await one.call('run_command', { cmd: 'cat kept' })
      expect(next.text).toMatch(news)
      expect(next.text).toMatch(/\nexit=0\nkept\n$/)
      expect((await one.call('run_command', { cmd: 'true' })).text).toBe('exit=0')
    },
  )

  it('a sandbox that its provider has lost comes back from its last snapshot, and the agent is told', async () => {
    await using one = await agent()
    await one.call('run_command', { cmd: 'echo saved > saved' })
    await one.call('snapshot')
    await one.call('run_command', { cmd: 'echo later > later' })
    await place.lose('web')
    const { text } = await one.call('run_command', { cmd: 'cat saved; ls later' })
    expect(text).toMatch(
      /^Note: The sandbox had ended and was created again from its last snapshot of \d{4}-\S+Z\. Later changes/,
    )
    expect(text).toMatch(/\nexit=2\nsaved\n/)
  })

  it('a token opens one sandbox until it is revoked', async () => {
    await place.ok(['create', 'other', '--yes', '--image', 'host'])
    const token = await place.token()
    const { socket, handles } = brokerPlace(path.join(place.env.SANDKASTEN_HOME!, 'registry'))
    const call = async (used: string) => {
      const caller = brokerCaller({ address: socket, token: async () => used })
      const options = { signal: new AbortController().signal, onProgress: () => {} }
      const { result } = await caller.call('status', {}, options)
      return result.content.map((part) => ('text' in part ? part.text : '')).join('\n')
    }
    expect(token).toMatch(/^sksb_[\w-]{43}$/)
    for (const name of readdirSync(handles)) {
      expect((await stat(path.join(handles, name))).mode & 0o777).toBe(0o600)
      expect(await readFile(path.join(handles, name), 'utf8')).not.toContain(token)
    }
    expect(await call(token)).toContain('name: web')
    // The token follows a rename, and does not open another sandbox with the old name.
    await place.ok(['rename', 'web', 'moved'])
    await place.ok(['rename', 'other', 'web'])
    expect(await call(token)).toContain('name: moved')
    await place.ok(['rename', 'web', 'other'])
    await place.ok(['rename', 'moved', 'web'])
    expect(await call(`${token.slice(0, -1)}x`)).toContain('does not accept the token')
    expect(await call('../../registry.db')).toContain('does not accept the token')
    expect((await place.mcp(['token', 'web', '--revoke'])).stderr).toMatch(
      /[1-9]\d* tokens? of “web” revoked/,
    )
    expect(await call(token)).toContain('does not accept the token')
    await place.ok(['destroy', 'other', '--yes', '--force'])
  })

  it('files of this machine are uploaded from allowed folders only', async () => {
    const allowed = path.join(place.home, 'allowed')
    await mkdir(path.join(allowed, 'sub'), { recursive: true })
    await writeFile(path.join(place.home, 'outside'), 'secret')
    await writeFile(path.join(allowed, 'sub/inside'), 'public')
    await symlink('../outside', path.join(allowed, 'link'))
    await symlink('sub/inside', path.join(allowed, 'inner'))
    await symlink(place.home, path.join(allowed, 'folder'))
    await using one = await agent(['--allow-folder', allowed])
    const upload = (localPath: string) => one.call('upload_file', { localPath, remotePath: 'up' })
    for (const refused of [
      'link',
      'folder/outside',
      '../outside',
      'sub/../../outside',
      '.',
      'sub',
      'missing',
    ])
      expect(await upload(`${allowed}/${refused}`), refused).toMatchObject({
        isError: true,
        text: expect.stringMatching(
          /cannot be uploaded: .* (does not exist in an allowed folder|is not a file)/,
        ),
      })
    expect((await upload('allowed/sub/inside')).text).toContain('must be absolute')
    expect((await upload('/etc/passwd')).text).toContain('does not exist in an allowed folder')
    for (const taken of ['inner', 'sub/inside']) {
      expect((await upload(`${allowed}/${taken}`)).text).toBe('Uploaded 6 bytes to up.')
      expect((await one.call('read_file', { path: 'up' })).text).toBe('public')
    }
    await using none = await agent()
    expect(
      (await none.call('upload_file', { localPath: `${allowed}/sub/inside`, remotePath: 'up' })).text,
    ).toContain('no folder of this machine is allowed')
    await rm(allowed, { recursive: true })
  })

  it('survives hostile names and 100 MB of output', async () => {
    await using one = await agent()
    await one.call('run_command', {
      cmd: `mkdir h; cd h; touch "$(printf 'a\\nb')" -- '-rf' '; rm' "$(printf '\\033[31mred')"`,
    })
    expect((await one.call('list_files', { path: 'h' })).text.split('\n')).toEqual([
      '"\\u001b[31mred" (0 B)',
      '-rf (0 B)',
      '; rm (0 B)',
      '"a\\nb" (0 B)',
    ])
    await one.call('write_file', { path: 'h/-rf', content: 'needle\n' })
    expect((await one.call('search', { pattern: 'needle', path: 'h' })).text).toBe('-rf:1: needle')
    expect((await one.call('search', { pattern: '(a+)+$', path: 'h' })).isError).toBe(false)
    expect(await one.call('search', { pattern: '(', path: 'h' })).toMatchObject({ isError: true })
    const { text } = await one.call('run_command', {
      cmd: "head -c 100000000 /dev/zero | tr '\\0' x; printf '\\nend\\n'",
    })
    expect(text.length).toBeLessThan(30_000)
    const file = /all of it is in (\/tmp\/\S+\.txt)/.exec(text)![1]!
    expect((await one.call('run_command', { cmd: `stat -c %s ${file}; tail -n1 ${file}` })).text).toBe(
      'exit=0\n100000005\nend\n',
    )
  })

  it('every process that a test started is gone with its agent', async () => {
    const one = await agent()
    await one.call('status')
    await one[Symbol.asyncDispose]()
    expect(isAlive(one.pid)).toBe(false)
  })
})
