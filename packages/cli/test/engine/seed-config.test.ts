import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { makeArchive } from './tool-archive.ts'

const seed = `listen: "127.0.0.1:8080"
api_key: "sk-sandbox-..."          # single key for MVP
default_image: "sandbox-runtime:base"
allowed_images:
  - "sandbox-runtime:base"
  - "sandbox-runtime:python"
  - "sandbox-runtime:node"
db_path: "./sandkasten.db"
session_ttl_seconds: 1800
defaults:
  cpu_limit: 1.0
  mem_limit_mb: 512
  pids_limit: 256
  max_exec_timeout_ms: 120000
  network_mode: "none"
  readonly_rootfs: true
`

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
const folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-seed-'))
const env = { PATH: process.env.PATH, HOME: folder, SANDKASTEN_HOME: path.join(folder, 'data') }
const works =
  process.getuid?.() === 0 &&
  (await new EngineProvider({ isolator: 'oci', root: path.join(folder, 'probe') })
    .healthCheck()
    .catch(() => false))

afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the first plan’s sandkasten.yaml', () => {
  let daemon: ReturnType<typeof spawn>
  let url: string
  let log = ''
  const authorization = 'Bearer sk-sandbox-...'
  const made: string[] = []
  beforeAll(async () => {
    if (!works) return
    await writeFile(path.join(folder, 'sandkasten.yaml'), seed)
    // Another port, because 8080 may be in use.
    daemon = spawn(process.execPath, [bin, 'up', '--listen', '127.0.0.1:0', '--json'], { env, cwd: folder })
    daemon.stderr!.on('data', (data) => {
      log += data
    })
    const [line] = await Promise.race([
      once(createInterface(daemon.stdout!), 'line'),
      once(daemon, 'exit').then(() => Promise.reject(new Error(log))),
    ])
    ;({ url } = JSON.parse(line))
  })
  afterAll(async () => {
    if (works) {
      // Sandboxes outlive the daemon.
      for (const id of made)
        await fetch(`${url}/v1/sessions/${id}`, { method: 'DELETE', headers: { authorization } })
      daemon.kill('SIGTERM')
      await once(daemon, 'exit')
    }
  })
  beforeEach(({ skip }) => {
    if (!works) skip('needs root on Linux with crun')
  })

  async function post(where: string, body: object): Promise<Record<string, never>> {
    const headers = { authorization }
    const response = await fetch(`${url}${where}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const answer = (await response.json()) as Record<string, never>
    if (where === '/v1/sessions' && response.ok) made.push(answer.id!)
    return answer
  }

  it('provides working sessions for each of its images, with the machine’s programs and a warning', async () => {
    for (const image of [
      undefined,
      'sandbox-runtime:base',
      'sandbox-runtime:python',
      'sandbox-runtime:node',
    ]) {
      const session = await post('/v1/sessions', { image })
      expect(session).toMatchObject({ status: 'running', image: image ?? 'sandbox-runtime:base' })
      expect(await post(`/v1/sessions/${session.id}/exec`, { cmd: 'echo hello' })).toMatchObject({
        exit_code: 0,
        output: 'hello\n',
      })
    }
    const warnings = log.split('\n').filter((line) => line.includes('is not built'))
    expect(warnings).toHaveLength(3)
    expect(warnings[1]).toContain('sandkasten image build python')
  })

  it('uses the recipe’s image as soon as it is built', async () => {
    const archive = path.join(folder, 'tool.tar')
    await makeArchive(archive)
    const image = (...args: string[]) =>
      promisify(execFile)(process.execPath, [bin, 'image', ...args], { env, cwd: folder })
    await image('import', archive, '--name', 'python')
    const { id } = await post('/v1/sessions', { image: 'sandbox-runtime:python' })
    const listed = await post(`/v1/sessions/${id}/run`, { cmd: '/tool', args: ['no-such-verb'] })
    // The archive contains only this program, and no shell.
    expect(listed).toMatchObject({ exit_code: expect.any(Number) })
    expect(await post(`/v1/sessions/${id}/run`, { cmd: '/bin/ls' })).toMatchObject({
      code: 'command_not_found',
    })
  })
})

describe('a missing image', () => {
  const provider = new EngineProvider({ isolator: 'oci', root: path.join(folder, 'engine') })
  afterAll(() => provider.close())
  it.each([
    ['python', /sandkasten image build python .*or: sandkasten image pull python$/],
    [
      'python:3.12',
      /sandkasten image pull python:3\.12\. .*sandkasten image build FOLDER --name python:3\.12/,
    ],
    ['sandbox-runtime:ruby', /Use sandbox-runtime:base, sandbox-runtime:node, sandbox-runtime:python/],
  ])('%s is reported with the command that gets it', async (image, hint) => {
    if (!works) return
    await expect(provider.create({ image })).rejects.toMatchObject({
      code: 'not_found',
      hint: expect.stringMatching(hint),
    })
  })
})
