import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { closeAll } from '../world/close.ts'
import { type CommandLine, commandLine } from '../world/command-line.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'

const missing = worldMissing() ?? (await isolationMissing())
const value = () => `sk-${randomBytes(12).toString('hex')}`

/** Secrets of the registry, in sandboxes of the engine, with real TLS servers. Each command is a process of its own. */
describe.skipIf(missing)(`sandbox secret${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let place: CommandLine
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    place = commandLine(world)
  }, 60_000)
  afterAll(() => closeAll(place, world), 60_000)

  // A retried test has a sandbox and paths of its own.
  let name: string
  beforeEach(() => {
    name = `demo-${randomBytes(3).toString('hex')}`
  })
  const visit = (path: string) => {
    const url = `https://api.allowed.example/${name}${path}`
    return place.run(['sandbox', 'exec', name, '--', 'curl', '-sS', '-m', '10', url])
  }
  const received = async (path: string) => {
    await world.settle()
    return world.records.find(({ data }) => data.includes(` /${name}${path}\n`))?.headers?.authorization
  }

  it('reaches servers, is rotated in a running sandbox, and is nowhere in clear text', async () => {
    const [first, later, variable] = [value(), value(), value()]
    const secret = 'github'
    const file = join(place.home, 'policy.json')
    const headers = { authorization: { secret, prefix: 'Bearer ' } }
    writeFileSync(
      file,
      JSON.stringify({
        allow: ['*.allowed.example'],
        transform: [{ match: { host: 'api.allowed.example' }, headers }],
      }),
    )
    const command = ['sandbox', 'secret']
    const outputs = [await place.ok([...command, 'set', secret], { input: `${first}\n` })]
    outputs.push(await place.ok(['sandbox', 'create', name, '--yes', '--network', file]))
    outputs.push((await visit('/first')).stdout)
    expect(await received('/first')).toBe(`Bearer ${first}`)

    // A process that has never seen the sandbox changes the value.
    outputs.push(
      await place.ok([...command, 'set', secret, '--from-env', 'LATER'], { env: { LATER: later } }),
    )
    expect(outputs.at(-1)).toBe(`github has version 2; it is in the network of ${name}`)
    // No use of the sandbox lies between: the gateway has the new value already.
    outputs.push((await visit('/second')).stdout)
    expect(await received('/second')).toBe(`Bearer ${later}`)
    expect(JSON.parse(await place.ok([...command, 'list', '--json']))).toMatchObject([
      { name: secret, version: 2 },
    ])

    // Values are in the memory of the gateway, and encrypted in the database.
    for (const needle of [first, later]) {
      for (const text of outputs) expect(text).not.toContain(needle)
      expect(clearIn(place.home, needle)).toEqual([])
    }

    // Without a stored value, the variable of the process that uses the sandbox.
    expect(await place.ok([...command, 'delete', secret])).toContain('github deleted')
    expect((await visit('/none')).stdout).toContain('secret')
    expect(await received('/none')).toBeUndefined()
    await place.ok(['sandbox', 'stop', name, '--force'])
    const again = ['curl', '-sS', `https://api.allowed.example/${name}/variable`]
    await place.ok(['sandbox', 'exec', name, '--', ...again], { env: { github: variable } })
    expect(await received('/variable')).toBe(`Bearer ${variable}`)
  }, 120_000)

  it('refuses wrong values and names without showing them', async () => {
    const set = ['sandbox', 'secret', 'set']
    const short = await place.run([...set, 'x'], { input: 'tiny5' })
    expect([short.code, short.stderr]).toEqual([125, expect.stringContaining('shorter than 6')])
    expect(short.stderr).not.toContain('tiny5')
    expect((await place.run([...set, 'x'])).code).toBe(125)
    const warned = await place.run([...set, 'x', '--value', 'visible-value'])
    expect([warned.code, warned.stderr]).toEqual([0, expect.stringContaining('--value')])
    expect((await place.run(['sandbox', 'secret', 'delete', 'absent'])).code).toBe(125)
  }, 60_000)
})

/** The files below the folder that have the text. */
function clearIn(folder: string, text: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((name) => contentOf(name).includes(text))
}

/** Sandboxes run meanwhile: files of theirs come and go, and some of the kernel’s cannot be read. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch (error) {
    if (['EINVAL', 'ENOENT'].includes(String((error as NodeJS.ErrnoException).code))) return ''
    throw error
  }
}
