import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { main } from '../src/main.ts'

/** Runs each line of the tables in docs/from-docker.md, in Docker's form and in ours. */

const bin = path.resolve(import.meta.dirname, '../bin/sandkasten.js')
const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/from-docker.md'), 'utf8')
const home = await mkdtemp(path.join(tmpdir(), 'sandkasten-from-docker-'))
const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home }
const probe = new EngineProvider({ isolator: 'oci', root: path.join(home, 'probe') })
const isolates = await probe.healthCheck().catch(() => false)

interface Said {
  code: number
  stdout: string
  stderr: string
}

function type(line: string): Promise<Said> {
  const [program, ...words] = line.split(' ')
  expect(['docker', 'sandkasten']).toContain(program)
  // Commands that use stdin need their own process; the others run in this one, which is faster.
  return ['run', 'shell'].includes(words[0]!) ? typeApart(words) : typeHere(words)
}

function typeApart(words: string[]): Promise<Said> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [bin, ...words], { env, cwd: home }, (error, stdout, stderr) => {
      resolve({ code: error ? ((error.code as number | undefined) ?? -1) : 0, stdout, stderr })
    })
    child.stdin!.end('')
  })
}

async function typeHere(words: string[]): Promise<Said> {
  const said = { stdout: '', stderr: '' }
  const write = (stream: 'stdout' | 'stderr') => (text: unknown, done?: unknown) => {
    said[stream] += String(text)
    if (typeof done === 'function') done()
    return true
  }
  const spies = [
    vi.spyOn(console, 'log').mockImplementation((text) => void write('stdout')(`${text}\n`)),
    vi.spyOn(console, 'error').mockImplementation((text) => void write('stderr')(`${text}\n`)),
    vi.spyOn(process.stdout, 'write').mockImplementation(write('stdout')),
    vi.spyOn(process.stderr, 'write').mockImplementation(write('stderr')),
  ]
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value)
  try {
    const absolute = words.map((word) => (word.startsWith('./') ? path.join(home, word) : word))
    return { code: await main([process.execPath, bin, ...absolute]), ...said }
  } finally {
    vi.unstubAllEnvs()
    for (const spy of spies) spy.mockRestore()
  }
}

const tables = page
  .split(/^## /m)
  .map((section) =>
    [...section.matchAll(/^\| `(docker [^`]+)` \| `([^`]+)` \|$/gm)].map(
      ([, docker, ours]) => [docker!, ours!] as const,
    ),
  )
const [same, other] = [tables[1]!, tables[2]!]
/** Replaces the words in capitals by existing objects. Makes no request outside of this machine. */
const filled = (line: string) =>
  line
    .replaceAll('SESSION', 'web')
    .replaceAll('IMAGE', line.includes(' pull ') ? 'localhost:1/none:none' : 'host')
    .replaceAll('FILE', './no-such.tar')
    .replaceAll('NAME', 'another')

describe('coming from Docker', () => {
  let daemon: ReturnType<typeof spawn>
  beforeAll(async () => {
    await chmod(home, 0o755)
    await mkdir(path.join(home, 'data'))
    await writeFile(path.join(home, 'data/shown'), 'shown')
    const isolator = isolates ? 'oci' : 'process'
    daemon = spawn(process.execPath, [bin, 'up', '--isolator', isolator, '--listen', '127.0.0.1:0'], {
      env,
      cwd: home,
    })
    const lines = createInterface(daemon.stdout!)
    await new Promise<void>((resolve, reject) => {
      lines.on('line', (line) => line.includes('/exec') && resolve())
      daemon.once('exit', (code) => reject(new Error(`the daemon ended with ${code}`)))
    })
    expect(await type('sandkasten sessions create --name web')).toMatchObject({ code: 0 })
  }, 60_000)
  afterAll(async () => {
    if (daemon.exitCode === null) {
      // Sandboxes outlive the daemon.
      for (const name of ['web', 'another']) await type(`sandkasten sessions destroy ${name}`)
      daemon.kill('SIGTERM')
      await once(daemon, 'exit')
    }
    await rm(home, { recursive: true, force: true })
  })

  it('the page has its tables', () => {
    expect(same.length).toBeGreaterThan(18)
    expect(other.length).toBeGreaterThan(10)
  })

  /** These change state, so a second run would have another result. */
  const once_ = /docker (start|stop|pause|unpause|rm|commit) /
  const failing = /docker (pull|load|rmi) /
  const needsIsolation = (line: string) => / -v | -m | -u |--image|pause|--mount|--network/.test(line)

  it.each(same)('%s', { timeout: 30_000 }, async (docker, ours) => {
    if (!isolates && needsIsolation(docker)) return
    const theirs = await type(filled(docker))
    if (failing.test(docker)) expect(theirs.code).not.toBe(0)
    else expect(theirs).toMatchObject({ code: 0 })
    expect(theirs.stderr).not.toContain('unknown')
    if (once_.test(docker)) {
      const help = await type(`${ours.split(' ').slice(0, 3).join(' ')} --help`)
      expect(help).toMatchObject({ code: 0, stdout: expect.stringContaining('Usage: ') })
      return
    }
    const again = await type(filled(ours))
    expect(timeless(again)).toEqual(timeless(theirs))
  })

  it.each(other)('%s gets a hint', { timeout: 30_000 }, async (docker, ours) => {
    if (ours.includes('NAME')) await type('sandkasten sessions destroy another')
    // The tables end and destroy sessions; each line needs a running one.
    if (ours.includes('SESSION') && (await type('sandkasten sessions create --name web')).code !== 0)
      await type('sandkasten sessions start web')
    const theirs = await type(filled(docker))
    expect(theirs.code).toBe(docker.startsWith('docker run IMAGE') ? 127 : 125)
    const [, verb] = ours.split(' ')
    expect(theirs.stderr).toMatch(
      docker.includes(' -u ')
        ? /user/
        : new RegExp(`sandkasten ${verb}|--${verb}|${verb === 'run' ? '--network open' : 'x^'}`),
    )
    if (!isolates && needsIsolation(ours)) return
    expect(await type(filled(ours))).toMatchObject({ code: 0 })
  })

  it('refuses --privileged and similar options with the reason', async () => {
    for (const option of ['--privileged', '--cap-add=ALL', '--gpus=all'])
      expect(await type(`sandkasten run ${option} true`)).toMatchObject({
        code: 125,
        stderr: expect.stringMatching(/privileges|devices/),
      })
  })

  it('-v without a mode is read-only and prints a note', async ({ skip }) => {
    if (!isolates) skip('needs root on Linux with crun')
    expect(await type('sandkasten run -v ./data:/data -- touch /data/more')).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/mounted read-only; write .*:rw/),
    })
    expect(existsSync(path.join(home, 'data/more'))).toBe(false)
  })
})

/** Removes times, which differ between runs. */
function timeless(said: Said): Said {
  const plain = (text: string) => text.replace(/\d{4}-\d\d-\d\d[T ][\d:.]+Z?|\d+ (ms|s)\b/g, 'TIME')
  return { ...said, stdout: plain(said.stdout), stderr: plain(said.stderr) }
}
