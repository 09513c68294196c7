import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { makeArchive } from './tool-archive.ts'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-place-'))
const home = path.join(folder, 'home')
const project = path.join(folder, 'project')
const archive = path.join(folder, 'tool.tar')
const skipped = process.getuid?.() === 0 && process.platform === 'linux' ? undefined : 'needs root on Linux'

function sandkasten(
  args: string[],
  { cwd = folder, env = {} }: { cwd?: string; env?: Record<string, string> } = {},
): Promise<{ code: number; stdout: string; stderr: string }> {
  const all = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home, NODE_NO_WARNINGS: '1', ...env }
  return new Promise((resolve) => {
    execFile(process.execPath, [bin, ...args], { env: all, cwd }, (error, stdout, stderr) => {
      resolve({ code: error ? ((error.code as number | undefined) ?? -1) : 0, stdout, stderr })
    }).stdin!.end()
  })
}

const inProject = (args: string[]) => sandkasten(args, { cwd: project })

beforeAll(async () => {
  await mkdir(project)
  await writeFile(path.join(project, 'sandkasten.yaml'), 'data_dir: ./data\nallowed_images: [host, tool]\n')
  if (!skipped) await makeArchive(archive)
})
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the place of sandboxes and images', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
  })

  it('is the folder of the daemon in sandkasten.yaml, and the command prints it', async () => {
    const store = path.join(project, 'data/engine')
    const imported = await inProject(['image', 'import', archive, '--name', 'tool'])
    expect(imported).toMatchObject({ code: 0, stderr: expect.stringContaining(`are in ${store} (`) })
    expect(imported.stderr).toContain(path.join(project, 'sandkasten.yaml'))
    expect(existsSync(path.join(store, 'images/refs'))).toBe(true)
    expect((await inProject(['image', 'list'])).stdout).toContain('tool:latest')
    expect((await inProject(['run', '--image', 'tool', '--', '/tool', 'version'])).stderr).not.toContain(
      'not on this machine',
    )
    const { stdout } = await inProject(['config', 'check', '--json'])
    expect(JSON.parse(stdout).engine_dir).toBe(store)
    expect((await sandkasten(['image', 'list'])).stdout).not.toContain('tool:latest')
  })

  it('can be set by a flag, a file or a variable, for every command', async () => {
    const ways: Array<{ args?: string[]; env?: Record<string, string> }> = [
      { args: ['--data-dir', path.join(project, 'data')] },
      { args: ['--data-dir', './project/data'] },
      { args: ['--config', 'project/sandkasten.yaml'] },
      { env: { SANDKASTEN_CONFIG: path.join(project, 'sandkasten.yaml') } },
      { env: { SANDKASTEN_DATA_DIR: path.join(project, 'data') } },
      { env: { SANDKASTEN_ENGINE_DIR: path.join(project, 'data/engine') } },
    ]
    for (const { args = [], env = {} } of ways) {
      const list = await sandkasten(['image', 'list', ...args], { env })
      expect([args, env, list.stdout]).toEqual([args, env, expect.stringContaining('tool:latest')])
    }
    const run = ['run', '--data-dir', './project/data', '--image', 'tool', '--', '/no-such-program']
    expect(await sandkasten(run)).toMatchObject({ code: 127 })
    const doctor = await sandkasten(['doctor', '--json', '--data-dir', path.join(project, 'data')])
    expect(doctor.stderr).toContain(path.join(project, 'data/engine'))
    expect((await sandkasten(['image', 'remove', 'tool', '--data-dir', './project/data'])).code).toBe(0)
    expect((await inProject(['image', 'list'])).stdout).not.toContain('tool:latest')
  })

  it('is the default, without a message', async () => {
    const { stderr } = await sandkasten(['image', 'list'], { env: { SANDKASTEN_HOME: '' } })
    expect(stderr).not.toContain('sandboxes and images are in')
  })

  it('is an error if sandkasten.yaml is invalid', async () => {
    const wrong = path.join(folder, 'wrong')
    await mkdir(wrong)
    await writeFile(path.join(wrong, 'sandkasten.yaml'), 'data_dri: ./data\n')
    expect(await sandkasten(['image', 'list'], { cwd: wrong })).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('Did you mean data_dir?'),
    })
  })
})
