import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { start, testDaemon } from '../helper.ts'
import { type Place, temporaryPlace } from './place.ts'
import { keys, onTerminal } from './pty.ts'

let at: Awaited<ReturnType<typeof testDaemon>>
let secret: string
beforeAll(async () => {
  at = await testDaemon()
  secret = at.env.SANDKASTEN_API_KEY
})
afterAll(() => at?.close())

/** Every file below the folder, and its bytes as text. */
function contents(folder: string): Array<[string, string]> {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name))
    .map((file) => [file, readFileSync(file, 'latin1')])
}

describe('a secret of a provider', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
  })
  afterAll(async () => {
    const found = contents(place.home).filter(([, text]) => text.includes(secret))
    await place.close()
    expect(found.map(([file]) => file)).toEqual([])
  })

  /** That the daemon is set up, and forgets it again. Returns what was said about it. */
  async function stored(): Promise<string> {
    const [row] = (await place.json<Array<{ provider: string }>>(['setup', '--list'])).filter(
      ({ provider }) => provider === 'daemon',
    )
    expect(row).toMatchObject({ settings: { url: at.daemon.url }, secrets: ['apiKey'] })
    const listed = `${JSON.stringify(row)}${await place.ok(['providers'])}${await place.ok(['setup', '--list'])}`
    expect(await place.json(['setup', '--remove', 'daemon'])).toEqual({ provider: 'daemon', removed: true })
    return listed
  }

  it('as a flag works, and is warned about', async () => {
    const ran = await place.run(['setup', 'daemon', '--url', at.daemon.url, '--api-key', secret])
    expect(ran).toMatchObject({ code: 0, stdout: 'daemon is set up.\n' })
    expect(ran.stderr).toMatch(
      /--api-key on the command line can be seen .* --stdin, or set SANDKASTEN_API_KEY/,
    )
    expect(`${ran.stdout}${ran.stderr}${await stored()}`).not.toContain(secret)
  })

  it.each([
    ['alone', () => secret],
    ['as JSON', () => JSON.stringify({ apiKey: secret })],
    ['as a line with the flag’s name', () => `api-key=${secret}\n`],
    ['as lines with the names of variables', () => `# a comment\nexport SANDKASTEN_API_KEY="${secret}"\n`],
  ])('is read from stdin, %s', async (_, input) => {
    const args = ['setup', 'daemon', '--url', at.daemon.url, '--stdin']
    const ran = await place.run(args, { input: input() })
    expect(ran).toMatchObject({ code: 0, stdout: 'daemon is set up.\n', stderr: '' })
    expect(await stored()).not.toContain(secret)
  })

  it('is taken from its variable', async () => {
    const env = { SANDKASTEN_API_KEY: secret, SANDKASTEN_URL: at.daemon.url }
    const ran = await place.run(['setup', 'daemon', '--json'], { env })
    expect(ran).toMatchObject({ code: 0 })
    expect(ran.stderr).toContain('uses SANDKASTEN_URL, SANDKASTEN_API_KEY of the environment')
    expect(`${ran.stdout}${ran.stderr}${await stored()}`).not.toContain(secret)
  })

  it('is typed on a terminal without echo', async () => {
    const pty = onTerminal(['sandbox', 'setup', 'daemon', '--url', at.daemon.url], place.env, place.home)
    await pty.expect('api-key')
    pty.type(secret)
    pty.type(keys.enter)
    expect(await pty.ended()).toBe(0)
    expect(pty.raw).toContain('daemon is set up')
    expect(pty.raw).not.toContain(secret)
    // Not even its length is shown.
    expect(pty.raw).not.toMatch(/[▪•*]{3}/)
    expect(await stored()).not.toContain(secret)
  })

  it('that is wrong is not stored, and not repeated', async () => {
    const wrong = 'sk-wrong-9876543210'
    const args = ['setup', 'daemon', '--url', at.daemon.url, '--stdin']
    const ran = await place.run(args, { input: wrong })
    expect(ran.code).toBe(125)
    expect(ran.stderr).toMatch(/^sandkasten: .*\n {2}\S/)
    expect(`${ran.stdout}${ran.stderr}`).not.toContain(wrong)
    expect(await place.json(['setup', '--list'])).not.toContainEqual(
      expect.objectContaining({ provider: 'daemon' }),
    )
    expect(await place.run([...args, '--no-check'], { input: wrong })).toMatchObject({
      code: 0,
      stdout: 'daemon is set up, unchecked.\n',
    })
    expect(await stored()).not.toContain(wrong)
  })

  it.each([
    [['daemon', '--api-kye', 'S'], 'There is no option --api-kye.\n  Did you mean --api-key?'],
    [['daemon', '--api-kye=S'], 'There is no option --api-kye.\n  Did you mean --api-key?'],
    [['daemon', '--S'], 'There is an unknown option.'],
    [['daemon', 'S'], 'More than one provider is given.'],
    [['daemn', '--api-key', 'S'], 'There is no provider “daemn”.\n  Did you mean daemon?'],
    [
      ['engine', '--api-key', 'S'],
      'The provider engine has no --api-key.\n  It takes: --isolator, --runtime.',
    ],
    [['--api-key', 'S'], '--api-key needs a provider.'],
    [['daemon', '--api-key', 'S'], 'The provider daemon needs --url.'],
    [['vercel', '--token', 'S'], 'The provider vercel needs --team-id, --project-id.'],
    [['daemon', '--url'], '--url needs a value.'],
    [['daemon', '--url', 'https://S@example.com', '--api-key', 'S'], 'user name'],
  ])('in a wrong place is not repeated: %j', async (args, message) => {
    const ran = await place.run(['setup', ...args.map((word) => word.replaceAll(/\bS\b/g, `${secret}-x`))])
    expect(ran.code).toBe(125)
    expect(ran.stderr).toContain(message)
    expect(`${ran.stdout}${ran.stderr}`).not.toContain(secret)
  })

  it.each([
    ['a number', '{"apiKey": 5}', 'not a string'],
    ['broken JSON', '{"apiKey": ', 'not JSON'],
    ['unknown names', 'A=1\nB=2', 'Entry 1 of stdin is not a setting'],
    ['nothing', '', 'stdin is empty'],
    ['300 kB', 'x'.repeat(300_000), 'too long'],
  ])('on stdin is refused in a wrong form: %s', async (_form, input, message) => {
    const ran = await place.run(['setup', 'daemon', '--stdin'], { input })
    expect(ran.code).toBe(125)
    expect(ran.stderr).toContain(message)
  })

  it('as a flag is hidden from ps while the provider is asked', async ({ skip }) => {
    if (process.platform !== 'linux') skip('reads /proc')
    // It accepts connections and never answers, so the command still waits when ps runs.
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const child = start(['sandbox', 'setup', 'daemon', '--url', url, '--api-key', secret], place.env)
    let said = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    await expect.poll(() => said).toContain('can be seen')
    const shown = execFileSync('ps', ['-o', 'args=', '-p', String(child.pid)], { encoding: 'utf8' }).trim()
    child.kill('SIGKILL')
    silent.close()
    expect(shown).not.toContain(secret)
    expect(shown).toContain('sandkasten')
  })
})

describe('setup', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
  })
  afterAll(() => place?.close())

  it('chooses the default', async () => {
    await place.ok(['setup', 'daemon', '--url', at.daemon.url, '--stdin', '--label', 'work', '--default'], {
      input: secret,
    })
    const states = async () =>
      Object.fromEntries(
        (await place.json<Array<{ provider: string; state: string }>>(['providers'])).map((row) => [
          row.provider,
          row.state,
        ]),
      )
    expect(await states()).toMatchObject({ daemon: 'default', engine: 'ready', daytona: 'not set up' })
    expect(await place.ok(['providers'])).toMatch(/^daemon +work +default/m)
    expect(await place.ok(['setup', '--default', 'engine'])).toBe('engine is the default.')
    expect(await states()).toMatchObject({ daemon: 'ready', engine: 'default' })
    expect(await place.json(['setup', '--default', 'daemon'])).toMatchObject({
      provider: 'daemon',
      isDefault: true,
    })
    expect(await states()).toMatchObject({ daemon: 'default', engine: 'ready' })
  })

  it('refuses to forget settings that sandboxes need, and rotates the key', async () => {
    await place.ok(['create', 'kept', '--yes', '--provider', 'daemon'])
    const refused = await place.run(['setup', '--remove', 'daemon'])
    expect(refused).toMatchObject({ code: 125, stderr: expect.stringMatching(/kept|sandbox/) })
    expect(await place.json<{ values: number }>(['setup', '--rotate-key'])).toMatchObject({
      values: expect.any(Number),
    })
    expect(await place.ok(['exec', 'kept', '--', 'echo', 'still'])).toBe('still')
    await place.ok(['destroy', 'kept', '--yes'])
    expect(await place.ok(['setup', '--remove', 'daemon'])).toBe('The settings of daemon are removed.')
    expect(await place.ok(['setup', '--remove', 'daemon'])).toBe('No settings of daemon were stored.')
  })

  it('has a help that lists the settings of one provider, or of all', async () => {
    expect(await place.ok(['setup', 'vercel', '--help'])).toMatch(/--team-id <value> .*\[VERCEL_TEAM_ID\]/)
    const all = await place.ok(['setup', '-h'])
    for (const provider of [
      'engine',
      'daytona',
      'e2b',
      'vercel',
      'daemon',
      'sprites',
      'hopx',
      'ssh',
      'local',
    ])
      expect(all).toMatch(new RegExp(`^${provider}: `, 'm'))
  })

  it.each<[string, string[], Record<string, string>, string[]]>([
    [
      'vercel',
      ['--token', 'sk-vercel-token-4711', '--project-id', 'prj_1', '--team-id', 'team_1'],
      { projectId: 'prj_1', teamId: 'team_1' },
      ['token'],
    ],
    [
      'daytona',
      ['--api-key', 'sk-daytona-key-4711', '--api-url', 'https://daytona.example/api', '--target', 'eu'],
      { apiUrl: 'https://daytona.example/api', target: 'eu' },
      ['apiKey'],
    ],
  ])('takes the settings of %s as flags', async (provider, flags, settings, secrets) => {
    const given = flags[1]!
    const ran = await place.run(['setup', provider, ...flags, '--no-check'])
    expect(ran).toMatchObject({ code: 0, stdout: `${provider} is set up, unchecked.\n` })
    expect(ran.stderr).toContain(`${flags[0]} on the command line can be seen`)
    const rows = await place.json<Array<{ provider: string }>>(['setup', '--list'])
    expect(rows.find((row) => row.provider === provider)).toMatchObject({ settings, secrets })
    const said = `${ran.stdout}${ran.stderr}${JSON.stringify(rows)}${await place.ok(['providers'])}`
    expect(said).not.toContain(given)
    for (const [file, text] of contents(place.home)) expect(text.includes(given), file).toBe(false)
    expect(await place.json(['setup', '--remove', provider])).toMatchObject({ removed: true })
  })

  it('is not needed: a variable of a provider makes it the default, and --default decides first', async () => {
    const env = { E2B_API_KEY: 'e2b_0000000000000000000000000000000000000000' }
    const defaultIn = async (more: Record<string, string>) => {
      const { stdout } = await place.run(['providers', '--json'], { env: more })
      const rows = JSON.parse(stdout) as Array<{ provider: string; state: string }>
      return rows.filter(({ state }) => state === 'default').map((row) => row.provider)
    }
    expect(await defaultIn({})).toEqual(['engine'])
    expect(await defaultIn(env)).toEqual(['e2b'])
    expect(await defaultIn({ ...env, SANDKASTEN_PROVIDER: 'local' })).toEqual(['local'])
    await place.ok(['setup', '--default', 'local'])
    expect(await defaultIn(env)).toEqual(['local'])
    await place.ok(['setup', '--default', 'engine'])
  })

  it('needs a provider', async () => {
    expect(await place.run(['setup'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('Name one of engine, daytona'),
    })
  })
})
