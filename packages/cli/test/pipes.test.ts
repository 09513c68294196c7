import { once } from 'node:events'
import { openSync } from 'node:fs'
import type { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { commandLine } from '../src/main.ts'
import { sandkasten, start, testDaemon } from './helper.ts'

/** `sandkasten … | true`: stdout has no reader. */
async function unread(
  args: readonly string[],
  env: Record<string, string>,
  { after = 0, both = false } = {},
) {
  const child = start(args, env, { stdio: ['ignore', 'pipe', 'pipe'] })
  let stderr = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  let read = 0
  if (after === 0) child.stdout!.destroy()
  else
    child.stdout!.on('data', (chunk: Buffer) => {
      read += chunk.length
      if (read >= after) child.stdout!.destroy()
    })
  if (both) child.stderr!.destroy()
  const [code, signal] = await once(child, 'exit')
  // `doctor` may have to build the runner first, and commands print a folder that is not the default, or their steps.
  const notes =
    /^.*(uilding the runner|sandboxes and images are in|^sandkasten: (creating|stopping|starting|saving|destroying) “).*\n/gm
  return { code, signal, stderr: stderr.replace(notes, '') }
}

const quiet = { code: 141, signal: null, stderr: '' }

describe('a closed reader', () => {
  let at: Awaited<ReturnType<typeof testDaemon>>
  let env: Record<string, string>
  let printing: Record<string, string[]>
  beforeAll(async () => {
    at = await testDaemon()
    env = { ...at.env, SANDKASTEN_HOME: `${at.home}/other`, NODE_NO_WARNINGS: '1' }
    for (const name of ['one', 'two', 'three'])
      await sandkasten(['sandbox', 'create', name, '--yes', '--provider', 'local'], env)
    const id = (await sandkasten(['sessions', 'create', '--name', 'work'], env)).stdout.trim()
    const doomed = (await sandkasten(['sessions', 'create'], env)).stdout.trim()
    await sandkasten(['exec', '-d', '--id', 'job', id, '--', 'echo out'], env)
    await sandkasten(['exec', '-d', '--id', 'fed', '--stdin', id, '--', 'cat'], env)
    await sandkasten(['exec', id, '--', 'head -c 5000000 /dev/zero | tr "\\0" "\\n" > big; true'], env)
    await sandkasten(['snapshot', 'create', id, '--name', 'saved'], env)
    await sandkasten(['ports', 'open', id, '3000'], env)
    const keyId = JSON.parse((await sandkasten(['keys', 'create', 'one', '--json'], env)).stdout).id
    const project = (await sandkasten(['projects', 'create', 'p'], env)).stdout.trim()
    printing = {
      'config check': [],
      status: [],
      'sessions create': [],
      'sessions list': [],
      'sessions get': [id],
      'sessions stop': [id],
      'sessions start': [id],
      'sessions extend': [id, '1h'],
      'sessions label': [id, 'a=b'],
      'sessions fork': [id],
      'sessions destroy': [doomed],
      exec: [id, '--', 'echo out'],
      logs: [id, 'job'],
      'commands list': [id],
      'commands get': [id, 'job'],
      'commands kill': [id, 'job'],
      'shells list': [id],
      'shells open': [id, 'second'],
      'shells close': [id, 'main'],
      cp: [`${id}:big`, '-'],
      'files list': [id],
      'files stat': [id, 'big'],
      'files pack': [id],
      'files watch': [id],
      'ports list': [id],
      'ports get': [id, '3000'],
      'ports open': [id, '3001'],
      'ports link': [id, '3000'],
      'ports close': [id, '3000'],
      'snapshot create': [id],
      'snapshot list': [],
      'snapshot get': ['saved'],
      'snapshot delete': ['saved'],
      'keys create': ['two'],
      'keys list': [],
      'keys revoke': [keyId],
      'projects create': ['q'],
      'projects list': [],
      'projects quotas': [project, '--sessions', '5'],
      'projects policy get': [project],
      'projects policy set': [project, '--image', 'host'],
      'volumes list': [],
      'secrets list': [],
      'secrets rotate-key': [],
      'sandbox list': [],
      'sandbox create': ['--yes', '--provider', 'local'],
      'sandbox show': ['one'],
      'sandbox start': ['one'],
      'sandbox snapshot': ['one'],
      'sandbox snapshots': [],
      'sandbox stop': ['one'],
      'sandbox rename': ['two', 'second'],
      'sandbox destroy': ['three', '--yes'],
      'sandbox exec': ['second', '--', 'echo', 'out'],
      'sandbox cp': ['second:.', `${at.home}/copied`],
      'sandbox url': ['second', '3000'],
      'sandbox providers': [],
      'sandbox setup': ['--list'],
      'sandbox prune': ['--yes', '--provider', 'local'],
      'sandbox attach': ['second', 'thread'],
      'sandbox detach': ['thread'],
      'mcp install': ['opencode', '--sandbox', 'second', '--print'],
      'mcp token': ['second'],
      'discord unit': [],
      events: [],
      audit: [],
      metrics: [],
      'image prune': [],
      doctor: [],
      cloudflare: ['--help'],
    }
  })
  afterAll(async () => {
    const names = JSON.parse((await sandkasten(['sandbox', 'list', '--json'], env)).stdout)
    await sandkasten(['sandbox', 'destroy', '--yes', ...names.map(({ name }: { name: string }) => name)], env)
    await at?.close()
  })

  /** Commands that print nothing, need a terminal or the network, or have their own tests. */
  const others: Record<string, string> = {
    run: 'cli.test.ts; it has to remove a sandbox first',
    up: 'keeps running: see below',
    'mcp broker': 'keeps running, and prints nothing',
    workspaces: 'a program of opencode’s plugin: speaks JSON lines until its input ends',
    code: 'needs an agent: test/code/prompt.test.ts',
    chat: 'needs an agent: test/chat/chat.test.ts',
    'discord setup': 'needs Discord: test/discord',
    send: 'needs Discord: test/discord',
    shell: 'needs a terminal',
    'sandbox shell': 'as above',
    'sandbox secret set': 'reads stdin; prints with the function of sandbox show',
    'sandbox secret list': 'prints a table only if a secret exists; like sandbox list',
    'sandbox secret delete': 'needs a secret; like sandbox destroy',
    'sandbox network': 'needs a sandbox; prints with the function of sandbox show',
    'sandbox work': 'prints only what it did',
    'volumes create': 'volumes need isolation; it prints with the function of sessions create',
    'volumes get': 'as above',
    'volumes delete': 'as above',
    'commands write': 'prints nothing',
    'files write': 'prints nothing',
    'files mkdir': 'prints nothing',
    'files move': 'prints nothing',
    'files remove': 'prints nothing',
    'files chmod': 'prints nothing',
    'files link': 'prints nothing',
    'files unpack': 'prints nothing',
    'sessions pause': 'needs isolation; like stop',
    'sessions resume': 'needs isolation; like start',
    'secrets set': 'reads stdin; prints with the function of secrets rotate-key',
    'secrets remove': 'needs a secret; like sessions destroy',
    'sessions network': 'prints with the function of sessions get',
    'sessions egress': 'needs isolation; prints like events',
    'sessions stats': 'needs isolation; like get',
    'image build': 'takes minutes; like prune',
    'image pull': 'needs a registry; like prune',
    'image import': 'needs an image; like prune',
    'image remove': 'needs an image; like prune',
    'image list': 'prints a table only if an image exists; like prune',
  }

  it('is tested with every command', () => {
    const leaves = (command: Command, path: string[] = []): string[] =>
      command.commands.length === 0
        ? [path.join(' ')]
        : command.commands.flatMap((inner) => leaves(inner, [...path, inner.name()]))
    const known = [...Object.keys(printing), ...Object.keys(others)]
    expect(leaves(commandLine().program).sort()).toEqual(known.sort())
  })

  it('ends every command silently', async () => {
    for (const [command, args] of Object.entries(printing))
      expect({ command, ...(await unread([...command.split(' '), ...args], env)) }).toEqual({
        command,
        ...quiet,
      })
  }, 600_000)

  it('ends help, and JSON', async () => {
    for (const args of [['--help'], ['sessions', 'create', '--help'], ['--version'], ['events', '--json']])
      expect(await unread(args, env), args.join(' ')).toEqual(quiet)
  })

  it('ends streams and the command behind them', async () => {
    const id = (await sandkasten(['sessions', 'create'], env)).stdout.trim()
    const endless = ['exec', id, '--', 'yes | head -200000']
    expect(await unread(endless, env, { after: 2 })).toEqual(quiet)
    expect(await unread(['exec', id, '--', 'yes'], env, { after: 2 })).toEqual(quiet)
    expect(await sandkasten(['exec', id, '--', 'echo next'], env)).toMatchObject({
      code: 0,
      stdout: 'next\n',
    })
    await sandkasten(['exec', id, '--', 'head -c 5000000 /dev/zero > big'], env)
    expect(await unread(['cp', `${id}:big`, '-'], env, { after: 100 })).toEqual(quiet)
    expect(await unread(['sandbox', 'exec', 'one', '--', 'yes', 'endless'], env, { after: 2 })).toEqual(quiet)
    const left = await sandkasten(
      ['sandbox', 'exec', 'one', '--', 'sh', '-c', 'ps -eo args= | grep -c "^yes endless"'],
      env,
    )
    expect(left.stdout).toBe('0\n')
    expect(await unread(['files', 'pack', id], env, { after: 100 })).toEqual(quiet)
    await sandkasten(['exec', '-d', '--id', 'many', id, '--', 'yes | head -200000'], env)
    expect(await unread(['logs', id, 'many'], env, { after: 2 })).toEqual(quiet)
  })

  it('of stderr ends errors, too', async () => {
    const ran = await unread(['sessions', 'get', 'no-such'], env, { both: true })
    expect(ran).toMatchObject({ code: 141, signal: null })
  })

  it('differs from a full disk, which is reported', async () => {
    const full = openSync('/dev/full', 'w')
    for (const args of [
      ['sessions', 'list'],
      ['events', '--json'],
      ['exec', 'work', '--', 'echo x'],
    ]) {
      const child = start(args, env, { stdio: ['ignore', full, 'pipe'] })
      let stderr = ''
      child.stderr!.setEncoding('utf8').on('data', (text: string) => {
        stderr += text
      })
      const [code] = await once(child, 'close')
      expect({ code, stderr }, args.join(' ')).toMatchObject({
        code: 125,
        stderr: expect.stringMatching(/^sandkasten: .*(cannot be written|ENOSPC).*\n$/),
      })
    }
  })

  it('does not end the daemon', async () => {
    const daemon = start(['up', '--isolator', 'process', '--listen', '127.0.0.1:0', '--json'], {
      SANDKASTEN_HOME: `${at.home}/up`,
    })
    daemon.stdout!.destroy()
    daemon.stderr!.destroy()
    const here = { SANDKASTEN_HOME: `${at.home}/up` }
    await expect.poll(async () => (await sandkasten(['status'], here)).code).toBe(0)
    expect((await sandkasten(['sessions', 'create'], here)).code).toBe(0)
    expect((await sandkasten(['sessions', 'list'], here)).code).toBe(0)
    daemon.kill('SIGTERM')
    expect(await once(daemon, 'exit')).toEqual([0, null])
  })
})
