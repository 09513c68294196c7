import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Command } from 'commander'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { commandLine } from '../../src/main.ts'
import { type Place, temporaryPlace } from './place.ts'

const missing = await isolationMissing()
const sandbox = commandLine().program.commands.find((command) => command.name() === 'sandbox')!

/** `list`, `list --refresh`, …: every command and every option. */
function everything(): string[] {
  return sandbox.commands.flatMap((command: Command) => [
    command.name(),
    ...command.options.map((option) => `${command.name()} ${option.long}`),
  ])
}

const elsewhere: Record<string, string> = {
  setup: 'setup.test.ts',
  shell: 'terminal.test.ts',
  'shell --env': 'as above',
  'shell --workdir': 'as above',
  'shell --thread': 'as above',
  'exec --tty': 'as above',
  'exec --interactive': 'as above',
  'create --repo': 'projects.test.ts',
  'create --git-token-env': 'as above',
  secret: 'test/egress/command-line/secrets.test.ts',
  url: 'url.test.ts',
  'url --protocol': 'as above',
  'url --json': 'as above',
}

describe.skipIf(missing)('sandkasten sandbox', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace({ FROM_HERE: 'shown' })
  })
  afterAll(() => place?.close())

  it('works with every command and option', async () => {
    const seen = new Set<string>()
    const run = async (
      args: string[],
      { input, fails = false }: { input?: string; fails?: boolean } = {},
    ) => {
      const command = sandbox.commands.find(
        (one) => one.name() === args[0] || one.aliases().includes(args[0]!),
      )!
      seen.add(command.name())
      const own = args.includes('--') ? args.slice(0, args.indexOf('--')) : args
      for (const option of command.options)
        if (own.includes(option.long!) || (option.short && own.includes(option.short)))
          seen.add(`${command.name()} ${option.long}`)
      const ran = await place.run(args, { input })
      if (ran.code !== (fails ? 125 : 0)) throw new Error(`${args.join(' ')}: ${ran.code} ${ran.stderr}`)
      return ran.stdout.trim()
    }
    const json = async (args: string[]) => JSON.parse(await run([...args, '--json']))

    await mkdir(path.join(place.home, 'project'))
    await writeFile(path.join(place.home, 'project/file'), 'from the project')
    expect(await json(['list'])).toEqual([])
    const created = await json([
      'create',
      '--name',
      'demo',
      '--provider',
      'engine',
      '--image',
      'host',
      '--upload',
      'project',
      '-e',
      'A=1',
      '-e',
      'FROM_HERE',
      '--label',
      'team=web',
      '--description',
      'the demo',
      '--lifetime',
      '2h',
      '--idle-stop',
      '30m',
      '--port',
      '3000',
      '--port',
      '4000',
      '-m',
      '256m',
      '--cpus',
      '0.5',
      '--thread',
      't1',
    ]) // prettier-ignore
    expect(created).toMatchObject({
      name: 'demo',
      provider: 'engine',
      status: 'running',
      label: 'the demo',
      image: 'host',
      ports: [3000, 4000],
      idleStopMs: 1_800_000,
      threads: ['t1'],
      incarnation: 1,
    })
    expect(JSON.stringify(created)).not.toContain('shown')
    await run(['create', 'second', '--yes', '--disk', '100m', '--user', 'root', '--option', 'pids=64'])
    const rules = ['--allow', 'a.example', '--allow', 'b.example:22', '--deny', 'x.a.example']
    await run(['create', 'closed', '--yes', '--network', 'none'])
    await run(['create', 'ruled', '--yes', ...rules])
    expect(await run(['exec', 'ruled', '--', 'cat', '/etc/resolv.conf'])).toContain('192.0.0.3')
    const file = path.join(place.home, 'policy.json')
    await writeFile(file, JSON.stringify({ allow: ['a.example'], limits: { bytes_per_second: 1_000 } }))
    const ruled = await json([
      'network',
      'ruled',
      '--network',
      file,
      '--allow',
      'c.example',
      '--deny',
      'd.example',
    ])
    expect(ruled).toMatchObject({
      allow: [{ host: 'a.example' }, { host: 'c.example' }],
      deny: [{ host: 'd.example' }],
      limits: { bytesPerSecond: 1_000 },
    })
    expect(await json(['network', 'ruled'])).toEqual(ruled)
    expect(await run(['show', 'ruled'])).toMatch(/^network: +a policy$/m)
    expect(await run(['network', 'closed'])).toBe('none')
    // Its sandbox has no sockets of the gateway, so it must be stopped first.
    await run(['network', 'closed', '--allow', 'a.example'], { fails: true })
    expect(await json(['network', 'closed'])).toBe('none')
    await run(['stop', 'closed', '--force'])
    await run(['network', 'closed', '--allow', 'a.example'])
    expect(await run(['exec', 'closed', '--', 'cat', '/etc/resolv.conf'])).toContain('192.0.0.3')
    await run(['destroy', 'closed', 'ruled', '--yes'])
    await run(['create', '--runtime', 'none99', '--json'], { fails: true })

    expect(await run(['exec', 'demo', '--', 'sh', '-c', 'cat file; echo " $A $FROM_HERE"'])).toBe(
      'from the project 1 shown',
    )
    expect(
      await run(
        [
          'exec',
          'demo',
          '-e',
          'B=2',
          '-w',
          '/tmp',
          '--timeout',
          '1m',
          '--thread',
          't1',
          '--',
          'sh',
          '-c',
          'pwd; echo $B; cat',
        ],
        {
          input: 'piped',
        },
      ),
    ).toBe('/tmp\n2\npiped')
    await run(['cp', 'project/file', 'demo:/tmp/copied'])
    expect(await json(['cp', 'demo:/tmp/copied', 'back'])).toEqual({ files: 1, bytes: 16, skipped: [] })

    expect(await run(['show', 'demo', '--iso'])).toMatch(/^name: +demo\n[\s\S]*^ports: +3000, 4000$/m)
    expect(await json(['show', 'demo'])).toMatchObject({ name: 'demo' })
    expect(await run(['list', '--iso', '--provider', 'engine'])).toMatch(
      /^NAME +PROVIDER +STATUS +LAST USED +THREADS\n/,
    )
    expect(await json(['list', '--refresh', '--timeout', '20s'])).toMatchObject([{}, {}])

    expect(await json(['stop', 'demo', '--force'])).toMatchObject([{ name: 'demo', status: 'stopped' }])
    expect(await json(['start', 'demo'])).toMatchObject([{ name: 'demo', status: 'running', incarnation: 2 }])
    const { snapshotId } = await json(['snapshot', 'demo', '--name', 'saved', '--force'])
    expect(await json(['create', 'third', '--snapshot', snapshotId])).toMatchObject({
      name: 'third',
      status: 'running',
    })
    expect(await run(['exec', 'third', '--', 'cat', '/tmp/copied'])).toBe('from the project')
    expect(await run(['snapshots', '--iso', '--provider', 'engine'])).toMatch(
      new RegExp(`^ID +SANDBOX.*\\n${snapshotId} +demo \\(last\\) +saved `),
    )
    await run(['snapshots', '--remove', '--yes', snapshotId], { fails: true })
    await run(['snapshots', '--remove', snapshotId], { fails: true })
    await run(['snapshots', snapshotId], { fails: true })
    expect(await json(['snapshots'])).toMatchObject([{ snapshotId, sandbox: 'demo', isLast: true }])
    expect(await run(['snapshots', '--remove', '--yes', '--force', snapshotId])).toBe(`${snapshotId} deleted`)
    await run(['snapshots', '--remove', '--yes', snapshotId], { fails: true })
    expect(await json(['snapshots'])).toEqual([])
    expect(await json(['rename', 'third', 'renamed'])).toMatchObject({ name: 'renamed' })
    await run(['exec', 'third', '--', 'true'], { fails: true })

    expect(await json(['attach', 'demo', 't2'])).toMatchObject({ threads: ['t1', 't2'] })
    expect(await json(['detach', 't2'])).toEqual({ detached: true })
    expect(await json(['detach', 't2'])).toEqual({ detached: false })
    expect(await json(['providers'])).toContainEqual(
      expect.objectContaining({ provider: 'engine', state: 'default', missing: [] }),
    )
    await run(['work', '--once', '--json'])
    expect(await json(['prune', '--yes', '--provider', 'engine'])).toMatchObject({ unreachable: [] })
    expect(await json(['destroy', 'renamed', 'second', '--yes', '--force'])).toMatchObject([
      { name: 'renamed', destroyed: true },
      { name: 'second', destroyed: true },
    ])
    expect(
      (await json(['list', '--all'])).map((one: { name: string; status: string }) => [one.name, one.status]),
    ).toEqual(
      expect.arrayContaining([
        ['demo', 'running'],
        ['renamed', 'destroyed'],
      ]),
    )
    expect(everything().filter((what) => !seen.has(what) && !(what in elsewhere))).toEqual([])
    expect(Object.keys(elsewhere).filter((what) => seen.has(what) || !everything().includes(what))).toEqual(
      [],
    )
  }, 240_000)
})
