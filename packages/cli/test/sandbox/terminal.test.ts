import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../daemon/src/testing/isolator.ts'
import { folderWithoutScript, type Place, temporaryPlace } from './place.ts'
import { keys, onTerminal, type Pty } from './pty.ts'

const missing = await isolationMissing()

describe.skipIf(missing)('on a terminal, sandkasten sandbox', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
    await place.ok(['create', 'demo', '--yes', '-e', 'A=1'])
  })
  afterAll(() => place?.close())
  const terminal = (...args: string[]): Pty => onTerminal(['sandbox', ...args], place.env, place.home)
  const shown = ({ raw }: Pty) => stripVTControlCharacters(raw)

  it('create asks for what is open, and Enter accepts each default', async () => {
    const pty = terminal('create')
    await pty.expect('Where?', keys.enter)
    await pty.expect('Name?', keys.enter)
    await pty.expect('What is in it?', keys.enter)
    await pty.expect('Image?', keys.enter)
    await pty.expect('Longest running time?', keys.enter)
    expect(await pty.ended()).toBe(0)
    const name = /Use it: sandkasten sandbox exec ([a-z]+-[a-z]+) -- COMMAND/.exec(shown(pty))?.[1]
    expect(await place.json(['show', name!])).toMatchObject({ provider: 'engine', status: 'running' })
  })

  it('create takes the answers', async () => {
    await mkdir(path.join(place.home, 'project'))
    await writeFile(path.join(place.home, 'project/file'), 'from here')
    const pty = onTerminal(['sandbox', 'create'], place.env, path.join(place.home, 'project'))
    await pty.expect('Where?', `${keys.down}${keys.enter}`)
    await pty.expect('Name?', `typed${keys.enter}`)
    await pty.expect('What is in it?', `${keys.down}${keys.enter}`)
    await pty.expect('Image?', keys.enter)
    await pty.expect('Longest running time?', `soon${keys.enter}`)
    await pty.expect('Use a number and a unit', '\x7f\x7f\x7f\x7f')
    pty.type(keys.enter)
    expect(await pty.ended()).toBe(0)
    expect(await place.json(['show', 'typed'])).toMatchObject({ provider: 'local' })
    expect(await place.ok(['exec', 'typed', '--', 'cat', 'file'])).toBe('from here')
  })

  it.each([
    ['Ctrl-C', keys.interrupt],
    ['Escape', keys.escape],
  ])('create ends with %s at a question, and makes nothing', async (_, key) => {
    const before = await place.json<unknown[]>(['list', '--all'])
    const pty = terminal('create')
    await pty.expect('Where?', key)
    expect(await pty.ended()).toBe(130)
    expect(await place.json<unknown[]>(['list', '--all'])).toHaveLength(before.length)
  })

  it('create asks nothing that options answer, and nothing at all with --yes', async () => {
    const pty = terminal(
      'create',
      '--name',
      'given',
      '--provider',
      'engine',
      '--image',
      'host',
      '--lifetime',
      '1h',
    )
    await pty.expect('What is in it?', keys.enter)
    expect(await pty.ended()).toBe(0)
    expect(shown(pty)).not.toMatch(/Where\?|Name\?|Image\?|time\?/)
    const silent = terminal('create', 'silent', '--yes')
    expect(await silent.ended()).toBe(0)
    expect(shown(silent)).not.toContain('?')
  })

  it('destroy asks, and names who uses the sandbox', async () => {
    await place.ok(['create', 'doomed', '--yes', '--thread', 'thread-7'])
    const holder = terminal('exec', 'doomed', '--', 'sleep', '1000')
    await expect
      .poll(async () => (await place.json<{ uses: unknown[] }>(['show', 'doomed'])).uses.length)
      .toBe(1)
    // The program, not its arguments.
    expect(await place.ok(['show', 'doomed'])).toMatch(/in use by: +process \d+ \(exec sleep, /)
    const refused = await place.run(['destroy', 'doomed', '--yes'])
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringMatching(/exec sleep[\s\S]*--force/) })
    const no = terminal('destroy', 'doomed')
    await no.expect(/thread-7[\s\S]*exec sleep/)
    await no.expect('No', keys.enter)
    expect(await no.ended()).toBe(0)
    expect(await place.json(['show', 'doomed'])).toMatchObject({ status: 'running' })
    const yes = terminal('destroy', 'doomed')
    await yes.expect(/thread-7[\s\S]*exec sleep/)
    await yes.expect('No', 'y')
    expect(await yes.ended()).toBe(0)
    expect(shown(yes)).toContain('doomed destroyed')
    expect(await holder.ended()).not.toBe(0)
  })

  it('list fits 80 columns', async () => {
    await place.ok(['create', `a-very-long-name-${'x'.repeat(46)}`, '--yes'])
    const pty = terminal('list')
    expect(await pty.ended()).toBe(0)
    const lines = shown(pty).trim().split(/\r?\n/)
    expect(lines[0]).toMatch(/^NAME +PROVIDER +STATUS +LAST USED +THREADS$/)
    expect(Math.max(...lines.map((line) => [...line].length))).toBeLessThanOrEqual(80)
    expect(lines.length).toBeGreaterThan(2)
  })

  it('shell opens a terminal with its state and size, and returns the exit code', async () => {
    const pty = terminal('shell', 'demo', '-e', 'B=2', '-w', '/tmp', '--thread', 't')
    await pty.expect('$', 'echo "$A-$B-$PWD" && stty size\n')
    await pty.expect('1-2-/tmp')
    await pty.expect('24 80')
    pty.type('exit 4\n')
    expect(await pty.ended()).toBe(4)
  })

  it('exec -it runs a program on a terminal', async () => {
    const pty = terminal(
      'exec',
      '-it',
      'demo',
      '--',
      'sh',
      '-c',
      'test -t 0 && read line && echo "got $line" && exit 5',
    )
    pty.type('typed\n')
    await pty.expect('got typed')
    expect(await pty.ended()).toBe(5)
  })

  it('Ctrl-C reaches the command of exec, and the exit code is the command’s', async () => {
    const pty = terminal(
      'exec',
      'demo',
      '--',
      'sh',
      '-c',
      'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.1; done',
    )
    await pty.expect('ready', keys.interrupt)
    await pty.expect('caught')
    expect(await pty.ended()).toBe(9)
  })

  it('shell reads lines where the provider has no terminals', async () => {
    // Without `script` on PATH the provider `local` has none.
    await place.ok(['create', 'lines', '--yes', '--provider', 'local'])
    const node = path.dirname(process.execPath)
    const pty = onTerminal(
      ['sandbox', 'shell', 'lines'],
      { ...place.env, PATH: `${node}:${await folderWithoutScript(place)}` },
      place.home,
    )
    await pty.expect('this provider has no terminals')
    await pty.expect('$', 'x=kept; cd /tmp\n')
    await pty.expect('lines:/tmp$', 'echo "$x-$PWD"\n')
    await pty.expect('kept-/tmp')
    pty.type('echo started-$((1 + 1)); sleep 1000\n')
    await pty.expect('started-2', keys.interrupt)
    pty.type("sh -c 'echo goes on-$((1 + 1)); exit 7'\n")
    await pty.expect('goes on-2')
    await pty.expect('lines:/tmp$', keys.end)
    expect(await pty.ended()).toBe(7)
  })
})
