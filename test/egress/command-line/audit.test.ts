import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../../packages/daemon/src/testing/isolator.ts'
import { closeAll } from '../world/close.ts'
import { type CommandLine, commandLine } from '../world/command-line.ts'
import { openWorld, type World, worldMissing } from '../world/world.ts'

const missing = worldMissing() ?? (await isolationMissing())

/** Learns a policy from a program, and runs the program again with it. */
describe.skipIf(missing)(`run --audit${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let world: World
  let place: CommandLine
  beforeAll(async () => {
    world = await openWorld({ sniff: false })
    place = commandLine(world)
  }, 60_000)
  afterAll(() => closeAll(place, world), 60_000)

  // TLS, HTTP, another port of a name, an address, and what stays refused.
  const program = `
    set -e
    curl -sS -m 10 -k -o /dev/null -w '%{http_code} tls\\n' https://a.allowed.example/
    curl -sS -m 10 -o /dev/null -w '%{http_code} http\\n' http://b.allowed.example/
    curl -sS -m 10 -o /dev/null -w '%{http_code} port\\n' http://c.wild.example:8080/
    curl -sS -m 10 -o /dev/null -w '%{http_code} address\\n' http://11.0.3.1:8080/
    curl -sS -m 5 -o /dev/null http://169.254.169.254/ 2>/dev/null || echo refused`
  const works = '200 tls\n200 http\n200 port\n200 address\nrefused'

  it('prints a policy with which the same program works', { timeout: 120_000 }, async () => {
    const learned = await place.run(['run', '--audit', '--', 'sh', '-c', program])
    expect([learned.code, learned.stdout.trim()], learned.stderr).toEqual([0, works])
    const policy = JSON.parse(learned.stderr.slice(learned.stderr.indexOf('{')))
    expect(policy).toEqual({
      allow: ['11.0.3.1:8080', 'a.allowed.example', 'b.allowed.example', 'c.wild.example:8080'],
    })
    const file = join(place.home, 'learned.json')
    writeFileSync(file, JSON.stringify(policy))
    const replayed = await place.run(['run', '--network', file, '--', 'sh', '-c', program])
    expect([replayed.code, replayed.stdout.trim()], replayed.stderr).toEqual([0, works])
    expect(replayed.stderr).not.toContain('sufficed')
    const other = ['curl', '-sSk', '-m', '10', 'https://c.allowed.example/']
    expect((await place.run(['run', '--network', file, '--', ...other])).code).not.toBe(0)
  })

  it('reports the policy also when the command fails, with its exit code', { timeout: 60_000 }, async () => {
    const command = ['sh', '-c', 'curl -sSk https://a.allowed.example/ >/dev/null; exit 7']
    const { code, stderr } = await place.run([
      'run',
      '--audit',
      '--allow',
      'c.allowed.example',
      '--',
      ...command,
    ])
    expect(code).toBe(7)
    // The rule that was not used is not needed.
    expect(JSON.parse(stderr.slice(stderr.indexOf('{')))).toEqual({ allow: ['a.allowed.example'] })
    expect((await place.run(['run', '--audit', '--network', 'open', '--', 'true'])).code).toBe(125)
  })
})
