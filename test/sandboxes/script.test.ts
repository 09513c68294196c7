import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Capabilities, SandboxProvider } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { type Place, temporaryPlace } from '../../packages/cli/test/sandbox/place.ts'
import { rows } from './rows.ts'

interface Shown {
  name: string
  provider: string
  status: string
  incarnation: number
  providerSandboxId: string
  threads: string[]
}

/**
 * The same script over every provider: each line is a process of its own, as from separate terminals. What differs
 * between providers is decided by their abilities.
 */
describe.each(rows.map((row) => [row.provider, row] as const))('a named sandbox at %s', (name, row) => {
  let place: Place
  let service: Awaited<ReturnType<typeof row.start>>
  let provider: SandboxProvider
  let abilities: Capabilities
  let missing: string | undefined
  beforeAll(async () => {
    missing = await row.missing()
    if (missing !== undefined) return
    service = await row.start()
    place = await temporaryPlace()
    const kind = kindsAt({ folder: path.join(place.home, 'data/engine') }).find(
      (one) => one.provider === name,
    )!
    // A second view of what exists there, beside the command.
    process.env.SANDKASTEN_HOME = place.env.SANDKASTEN_HOME
    provider = kind.make(service.settings ?? {})
    abilities = provider.capabilities
  }, 120_000)
  afterAll(async () => {
    await place?.close()
    await (provider as Partial<AsyncDisposable>)?.[Symbol.asyncDispose]?.()
    await service?.stop()
    delete process.env.SANDKASTEN_HOME
  }, 120_000)

  const sh = (line: string, input?: string) => place.run(['exec', 'demo', '--', 'sh', '-c', line], { input })
  const said = async (line: string) => {
    const { code, stdout, stderr } = await sh(line)
    return code === 0 ? stdout.trim() : `${code}: ${stderr}`
  }
  const show = () => place.json<Shown>(['show', 'demo'])
  const there = async () =>
    (await provider.list()).filter(({ status }) => status !== 'destroyed').map((one) => one.sandboxId)

  it('goes through its whole life', async ({ skip }) => {
    if (missing !== undefined) skip(missing)

    if (service.settings) {
      const input = JSON.stringify(service.settings)
      expect(await place.run(['setup', name, '--stdin'], { input })).toMatchObject({ code: 0, stderr: '' })
    }
    await mkdir(path.join(place.home, 'project/src'), { recursive: true })
    await writeFile(path.join(place.home, 'project/src/main.txt'), 'uploaded')
    const created = await place.json<Shown>([
      'create',
      '--name',
      'demo',
      '--provider',
      name,
      '--upload',
      'project',
      '--env',
      'A=from create',
      '--thread',
      't1',
    ]) // prettier-ignore
    expect(created).toMatchObject({
      name: 'demo',
      provider: name,
      status: 'running',
      incarnation: 1,
      threads: ['t1'],
    })
    expect(await there()).toEqual([created.providerSandboxId])
    expect(await place.run(['create', '--name', 'demo', '--provider', name, '--yes'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('“demo” is taken'),
    })

    expect(await said('cat src/main.txt; echo " $A"; echo kept > file')).toBe('uploaded from create')
    expect(await sh('cat; echo err >&2; exit 7', 'piped')).toMatchObject({
      code: 7,
      stdout: 'piped',
      stderr: 'err\n',
    })
    const together = await Promise.all([1, 2, 3].map((n) => said(`sleep 0.3; echo ${n}`)))
    expect(together).toEqual(['1', '2', '3'])
    await place.ok(['cp', 'project', 'demo:copied'])
    expect(await place.ok(['cp', 'demo:copied/src/main.txt', '-'])).toBe('uploaded')
    expect(await place.ok(['list', '--refresh'])).toMatch(new RegExp(`^demo +${name} +running `, 'm'))

    const stopped = await place.run(['stop', 'demo'])
    if (abilities.stop || abilities.pause || abilities.snapshot) {
      expect(stopped).toMatchObject({ code: 0, stdout: expect.stringMatching(/^demo (stopped|paused)\n$/) })
      expect((await show()).status).toMatch(/^(stopped|paused)$/)
      expect(await place.ok(['list', '--refresh'])).toMatch(
        new RegExp(`^demo +${name} +(stopped|paused) `, 'm'),
      )
      expect(await place.ok(['start', 'demo'])).toBe('demo running')
      expect(await said('cat file; echo "$A"')).toBe('kept\nfrom create')
      await place.ok(['stop', 'demo'])
      // exec starts it.
      expect(await said('cat file')).toBe('kept')
      expect((await show()).incarnation).toBeGreaterThan(1)
    } else expect(stopped).toMatchObject({ code: 125, stderr: expect.stringMatching(/\n {2}\S/) })

    const saved = await place.run(['snapshot', 'demo'])
    if (abilities.snapshot) {
      expect(saved).toMatchObject({ code: 0, stdout: expect.stringMatching(/^\S+\n$/) })
      await place.ok(['create', 'twin', '--provider', name, '--snapshot', saved.stdout.trim(), '--yes'])
      expect(await place.ok(['exec', 'twin', '--', 'sh', '-c', 'cat file || cat */file'])).toBe('kept')
      await place.ok(['destroy', 'twin', '--yes'])
    } else expect(saved).toMatchObject({ code: 125, stderr: expect.stringMatching(/\n {2}\S/) })

    // It disappears without the command, as when a provider ends it.
    const before = await show()
    await provider.destroy(before.providerSandboxId)
    const after = await said('cat file; echo "$A"')
    if (abilities.snapshot) {
      expect(after).toBe('kept\nfrom create')
      expect((await show()).incarnation).toBeGreaterThan(before.incarnation)
    } else expect(after).toMatch(/^125: [\s\S]*sandkasten sandbox create/)

    expect(await place.run(['destroy', 'demo'])).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('--yes'),
    })
    expect(await place.json(['destroy', 'demo', '--yes'])).toMatchObject([{ name: 'demo', destroyed: true }])
    expect(await place.json(['list'])).toEqual([])
    expect(await place.json<Shown[]>(['list', '--all'])).toContainEqual(
      expect.objectContaining({ name: 'demo', status: 'destroyed' }),
    )
    expect(await place.run(['exec', 'demo', '--', 'true'])).toMatchObject({ code: 125 })
    expect(await there()).toEqual([])
  }, 240_000)
})
