import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDaemon } from '../helper.ts'
import { type Place, temporaryPlace } from './place.ts'

describe('sandkasten sandbox says what to do next', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
    await place.ok(['create', 'frontend', '--provider', 'local'])
  })
  afterAll(() => place?.close())

  it.each<[string[], RegExp]>([
    [['exec', 'frontned', '--', 'ls'], /“frontned”[\s\S]*Did you mean “frontend”\?/],
    [['show', 'front'], /Did you mean “frontend”\?/],
    [['stop', 'nothing-like-it'], /sandkasten sandbox list/],
    [['create', '--provider', 'daytna'], /“daytna”[\s\S]*Did you mean “daytona”\?/],
    [['list', '--provider', 'lcoal'], /“lcoal”[\s\S]*Did you mean “local”\?/],
    [['prune', '--yes', '--provider', 'lcoal'], /Did you mean “local”\?/],
    [['create', '--provider', 'daytona'], /not set up[\s\S]*sandkasten sandbox setup daytona/],
    [['create', 'Not A Name'], /cannot be the name[\s\S]*1 to 63 characters/],
    [['create', 'frontend', '--provider', 'local'], /taken/],
    [['create', '--provider', 'local', '--image', 'python'], /image/],
    [['destroy', 'frontend'], /Destroy frontend[\s\S]*--yes/],
    [['prune'], /--yes/],
    [['rename', 'frontend', 'Bad Name'], /cannot be the name/],
    [['cp', 'a', 'b'], /NAME:path/],
    [['cp', 'frontend:none', '.'], /does not exist in the sandbox/],
    [['cp', '/no/such/file', 'frontend:'], /\/no\/such\/file does not exist on this machine/],
    [['create', '--provider', 'local', '--snapshot', 'none'], /none[\s\S]*sandkasten sandbox snapshots/],
    [['create', '--provider', 'local', '--repo', 'http://127.0.0.1:9/x'], /--git-token-env VARIABLE/],
    [['secret', 'delete', 'none'], /“none”[\s\S]*sandkasten sandbox secret list/],
    [['exec', '--timeout', 'soon', 'frontend', '--', 'ls'], /90s, 30m, 2h or 7d/],
    [['create', '--port', '0'], /1 to 65535/],
    [['create', '--option', 'x'], /pids=64/],
    [['create', '--network', 'bridge'], /none, open, or a file/],
    [['create', '--network', 'open', '--allow', 'a.example'], /--network open does not go with --allow/],
    [['exce', 'frontend', 'ls'], /Did you mean exec\?/],
    [['create', '--proivder', 'x'], /Did you mean --provider\?/],
    [['exec', 'frontend', 'ls', '-l'], /Put -- before the command/],
  ])('%j', async (args, message) => {
    const ran = await place.run(args)
    expect(ran.code).toBe(125)
    expect(ran.stderr).toMatch(message)
    expect(ran.stdout).toBe('')
    // Sessions are another thing.
    expect(ran.stderr).not.toMatch(/sessions|session\b/)
  })

  it('with the exit codes of commands', async () => {
    const exec = (...command: string[]) => place.run(['exec', 'frontend', '--', ...command])
    expect(await exec('no-such-program')).toMatchObject({ code: 127 })
    expect(await exec('ls -l')).toMatchObject({ code: 127, stderr: expect.stringContaining("sh -c '…'") })
    expect(await place.run(['exec', '--timeout', '0.3', 'frontend', '--', 'sleep', '100'])).toMatchObject({
      code: 124,
      stderr: expect.stringContaining('--timeout'),
    })
  })

  it('warns of a provider that does not isolate, in one line', async () => {
    const ran = await place.run(['exec', 'frontend', '--', 'true'], { env: { NODE_NO_WARNINGS: '' } })
    expect(ran).toMatchObject({
      code: 0,
      stderr: expect.stringMatching(/^sandkasten: Local sandboxes are not isolated: .*\n$/),
    })
  })

  it('asks nothing without a terminal, and prints only the name', async () => {
    const ran = await place.run(['create', '--provider', 'local'])
    expect(ran).toMatchObject({ code: 0, stdout: expect.stringMatching(/^[a-z]+-[a-z]+\n$/) })
    expect(ran.stderr).toMatch(/^sandkasten: creating “[a-z-]+” at local\n$/)
  })
})

it('prune names each sandbox that it destroys once', async () => {
  await using place = await disposable()
  for (const name of ['kept', 'lost']) await place.ok(['create', name, '--provider', 'local'])
  const { providerSandboxId } = await place.json<{ providerSandboxId: string }>(['show', 'lost'])
  using database = new DatabaseSync(path.join(place.env.SANDKASTEN_HOME!, 'registry/registry.db'))
  database.exec("delete from sandboxes where name = 'lost'")
  expect(await place.json(['prune', '--yes'])).toMatchObject({
    done: [
      { sandbox: `local:${providerSandboxId}`, action: 'was destroyed: no name belongs to it any more' },
    ],
    problems: 0,
  })
  expect(await place.ok(['prune', '--yes'])).toBe('Nothing to do.')
})

async function disposable() {
  const place = await temporaryPlace()
  return { ...place, [Symbol.asyncDispose]: () => place.close() }
}

describe('a provider that does not answer', () => {
  let place: Place
  let silent: Server
  let at: Awaited<ReturnType<typeof testDaemon>>
  beforeAll(async () => {
    at = await testDaemon()
    place = await temporaryPlace()
    await place.ok(['setup', 'daemon', '--url', at.daemon.url, '--stdin'], {
      input: at.env.SANDKASTEN_API_KEY,
    })
    await place.ok(['create', 'far', '--provider', 'daemon'])
    await place.ok(['create', 'near', '--provider', 'local'])
    silent = createServer(() => {})
    await once(silent.listen(0, '127.0.0.1'), 'listening')
  })
  afterAll(async () => {
    silent.closeAllConnections()
    silent.close()
    await place?.close()
    await at?.close()
  })

  it('is a status of its sandboxes, and does not fail or delay the list', async () => {
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    await place.ok(['setup', 'daemon', '--url', url, '--stdin', '--no-check'], { input: 'sk-other' })
    const startedAt = performance.now()
    const ran = await place.run(['list', '--refresh', '--timeout', '1'])
    expect(performance.now() - startedAt).toBeLessThan(15_000)
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    expect(ran.stdout).toMatch(/^far +daemon +unreachable /m)
    expect(ran.stdout).toMatch(/^near +local +running /m)
    const listed = await place.json<Array<{ name: string }>>(['list', '--refresh', '--timeout', '1'])
    expect(listed.find(({ name }) => name === 'far')).toMatchObject({
      status: 'running',
      unreachable: true,
      errorMessage: expect.any(String),
    })
    expect(listed.find(({ name }) => name === 'near')).toMatchObject({ unreachable: false })
    // Not asked again: the last known status.
    expect(await place.ok(['list'])).toMatch(/^far +daemon +running /m)
    await place.ok(['setup', 'daemon', '--url', at.daemon.url, '--stdin'], {
      input: at.env.SANDKASTEN_API_KEY,
    })
    expect(await place.ok(['list', '--refresh'])).toMatch(/^far +daemon +running /m)
  })

  it('is a remark of the sandbox until the next command succeeds', async () => {
    const closed = createServer()
    await once(closed.listen(0, '127.0.0.1'), 'listening')
    const { port } = closed.address() as AddressInfo
    await new Promise((resolve) => closed.close(resolve))
    await place.ok(['setup', 'daemon', '--url', `http://127.0.0.1:${port}`, '--stdin', '--no-check'], {
      input: 'sk-other',
    })
    expect(await place.run(['stop', 'far'])).toMatchObject({ code: 125 })
    expect(await place.ok(['show', 'far'])).toMatch(/^status: +running\nproblem: +\S/m)
    expect(await place.ok(['list'])).toMatch(/^far +daemon +running /m)
    await place.ok(['setup', 'daemon', '--url', at.daemon.url, '--stdin'], {
      input: at.env.SANDKASTEN_API_KEY,
    })
    await place.ok(['exec', 'far', '--', 'true'])
    expect(await place.ok(['show', 'far'])).not.toMatch(/^problem:/m)
  })
})
