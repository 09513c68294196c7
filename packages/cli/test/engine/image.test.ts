import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { Progress, sizeText } from '../../src/progress.ts'
import { makeArchive } from './tool-archive.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-image-'))
const env = { ...process.env, SANDKASTEN_HOME: home }
const archive = path.join(home, 'tool.tar')
// The engine's `ordinary-account.test.ts` runs this as an account with a range of ids.
const able = process.getuid?.() === 0 || process.env.SANDKASTEN_TEST_ACCOUNT === 'range'
const skipped = able && process.platform === 'linux' ? undefined : 'needs root on Linux'

function image(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [bin, 'image', ...args], { env, cwd: home }, (error, stdout, stderr) => {
      resolve({ code: error ? ((error.code as number | undefined) ?? -1) : 0, stdout, stderr })
    })
  })
}

afterAll(async () => {
  // Layers belong to ids of the range, so the command must remove them.
  if (!skipped) await image('prune', '--all')
  await rm(home, { recursive: true, force: true })
})

describe('sandkasten image', () => {
  beforeAll(async () => {
    if (!skipped) await makeArchive(archive)
  })
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  it('imports, lists, removes and prunes', async () => {
    expect(await image('list')).toMatchObject({
      code: 0,
      stdout: '',
      stderr: expect.stringContaining('image build base'),
    })
    const imported = await image('import', './tool.tar')
    expect(imported).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^tool:1 {2}sha256:[0-9a-f]{64} {2}[\d.]+ [KM]iB\n$/),
    })
    expect(imported.stderr).toBe(
      `sandkasten: sandboxes and images are in ${home}/engine (SANDKASTEN_HOME).\nunpacking layer 1 of 1\n`,
    )
    expect((await image('list')).stdout).toMatch(
      /^NAME +DIGEST +SIZE +ADDED\ntool:1 +sha256:[0-9a-f]{12} +\S+ [KM]iB +(now|\d+ \w+ ago)\n$/,
    )
    const [listed] = JSON.parse((await image('list', '--json')).stdout)
    expect(listed).toMatchObject({ name: 'tool:1', config: { workdir: '/workspace' } })
    expect(imported.stdout).toContain(listed.digest)
    expect(await image('remove', 'tool:1')).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/tool:1 is removed: [\d.]+ [KM]iB free\./),
    })
    expect(await image('prune', '--all')).toMatchObject({
      code: 0,
      stdout: '0 layers removed, 0 B freed.\n',
    })
    expect((await image('list', '--json')).stdout).toBe('[]\n')
  })

  it('provides images for `run`', async ({ skip }) => {
    const provider = new EngineProvider({ isolator: 'oci', root: path.join(home, 'probe') })
    if (!(await provider.healthCheck().catch(() => false))) skip('needs crun')
    await image('import', archive, '--name', 'running')
    const args = [bin, 'run', '--image', 'running', '--', '/tool', 'version']
    expect((await promisify(execFile)(process.execPath, args, { env })).stdout).toMatch(/^\d+\.\d+/)
    await image('remove', 'running')
  })

  it('suggests a correction and a command', async () => {
    await image('import', archive, '--name', 'tool')
    const [typo, command, recipe, absent, path_] = await Promise.all([
      image('remove', 'tol'),
      image('lsit'),
      image('build', 'pyhton'),
      image('remove', 'nothing-like-it'),
      image('import', './no-such.tar'),
    ])
    expect(typo).toMatchObject({ code: 125, stderr: expect.stringContaining('tool:latest') })
    expect(command).toMatchObject({ code: 125, stderr: expect.stringContaining('list') })
    expect(recipe).toMatchObject({ code: 125, stderr: expect.stringContaining('Did you mean python?') })
    expect(absent).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('sandkasten image pull nothing-like-it'),
    })
    expect(path_).toMatchObject({ code: 125, stderr: expect.stringContaining('does not exist') })
  })
})

describe('progress', () => {
  it('is one line on a terminal, and one line per step elsewhere', () => {
    const events = [0, 50, 100].map((done) => ({ phase: 'fetch', done, total: 100 }) as const)
    const shown = (isTTY: boolean) => {
      let text = ''
      const progress = new Progress({
        isTTY,
        columns: 80,
        write: (chunk: string) => (text += chunk),
      } as never)
      for (const event of events) progress.show(event)
      progress.show({ phase: 'unpack', layer: 1, layers: 2, bytes: 2048 })
      progress.end()
      return text
    }
    expect(shown(false)).toBe('fetching 100 B\nunpacking layer 1 of 2\n')
    expect(shown(true)).toBe('\r\x1b[Kfetching 100 B: 0 %\r\x1b[Kunpacking layer 1 of 2: 2.0 KiB\r\x1b[K')
  })

  it('formats sizes', () => {
    expect([0, 1023, 1024, 1536, 5 * 1024 ** 3].map(sizeText)).toEqual([
      '0 B',
      '1023 B',
      '1.0 KiB',
      '1.5 KiB',
      '5.0 GiB',
    ])
  })
})
