import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { EngineProvider } from '@sandkasten/engine'
import { afterAll, afterEach, describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-start-'))
const startedHere: Started[] = []
afterAll(() => rmSync(folder, { recursive: true, force: true }))
afterEach(() => {
  for (const { npm, home } of startedHere.splice(0)) {
    npm.kill('SIGKILL')
    if (existsSync(path.join(home, 'daemon.lock'))) process.kill(pidOf(home), 'SIGKILL')
  }
})

const works = await new EngineProvider({ isolator: 'oci', root: path.join(folder, 'probe') })
  .healthCheck()
  .catch(() => false)
const needsIsolation = works ? undefined : 'needs a machine on which sandboxes can be isolated'

interface Started {
  readonly npm: ChildProcess
  readonly home: string
  readonly ended: Promise<unknown>
  said(): string
}

/** Runs `npm start` as a user types it, with its own data folder. */
function npmStart(args: string[] = [], env: Record<string, string> = {}): Started {
  const home = mkdtempSync(path.join(folder, 'home-'))
  const npm = spawn('npm', ['start', '--', '--listen', '127.0.0.1:0', ...args], {
    cwd: root,
    env: { ...process.env, SANDKASTEN_HOME: home, NODE_NO_WARNINGS: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let text = ''
  for (const stream of [npm.stdout!, npm.stderr!])
    stream.on('data', (data) => {
      text += data
    })
  const started = { npm, home, ended: once(npm, 'exit'), said: () => text }
  startedHere.push(started)
  return started
}

async function listening({ npm, ended, said }: Started): Promise<void> {
  const timer = setInterval(() => said().includes('Or over HTTP') && npm.emit('listening'), 50)
  const failed = ended.then(() => Promise.reject(new Error(`npm start ended:\n${said()}`)))
  await Promise.race([once(npm, 'listening'), failed]).finally(() => clearInterval(timer))
}

const pidOf = (home: string): number => JSON.parse(readFileSync(path.join(home, 'daemon.lock'), 'utf8')).pid
const isAlive = (pid: number) => existsSync(`/proc/${pid}`)

describe('npm start', () => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGKILL'] as const)(
    'ends its daemon when npm gets %s',
    async (signal) => {
      const started = npmStart(['--isolator', 'process'])
      await listening(started)
      const pid = pidOf(started.home)
      started.npm.kill(signal)
      await started.ended
      await expect.poll(() => isAlive(pid)).toBe(false)
      // A clean shutdown releases the data folder.
      expect(readdirSync(started.home)).not.toContain('daemon.lock')
    },
  )

  it('prints commands that work in another terminal', async ({ skip }) => {
    if (needsIsolation) skip(needsIsolation)
    const env = { SANDKASTEN_FRONTS_E2B_LISTEN: '127.0.0.1:0' }
    const started = npmStart([], env)
    await listening(started)
    expect(started.said()).toMatch(/Sandboxes +isolated \(container\)/)
    expect(started.said()).toMatch(/e2b front +http:\/\/127\.0\.0\.1:\d+\n/)
    const lines = [...started.said().matchAll(/^ {2}(.*npx sandkasten .*)$/gm)].map(([, line]) => line)
    expect(lines).toHaveLength(2)
    const { stdout } = await promisify(execFile)('sh', ['-ec', lines.join('\n')], { cwd: root })
    expect(stdout).toMatch(/^[a-z2-7]{16}\nhello\n$/)
    const destroy = lines[1]!.replace('exec first -- echo hello', 'sessions destroy first')
    await promisify(execFile)('sh', ['-ec', destroy], { cwd: root })
    started.npm.kill('SIGTERM')
    await started.ended
  })

  it('does not start without isolation, and prints how to get it', async ({ skip }) => {
    if (needsIsolation) skip(needsIsolation)
    const started = npmStart([], { SANDKASTEN_RUNNER: '/no/such/runner' })
    expect((await started.ended) as unknown[]).not.toEqual([0, null])
    expect(started.said()).toContain('cannot be isolated: there is no runner at /no/such/runner')
    expect(started.said()).toContain('does not start without isolation')
    expect(started.said()).toContain('--accept-no-isolation')
    expect(started.said()).not.toContain('listens on')
  })

  it('does not start if a trial sandbox fails, even if no isolation is accepted', async ({ skip }) => {
    if (needsIsolation) skip(needsIsolation)
    const bin = path.join(folder, 'bin')
    mkdirSync(bin)
    // Prints crun's version, and fails otherwise.
    const script = '#!/bin/sh\n[ "$1" = --version ] && echo "crun version 1.8.1" && exit\nexit 1\n'
    writeFileSync(path.join(bin, 'crun'), script, { mode: 0o755 })
    const started = npmStart(['--accept-no-isolation'], { PATH: `${bin}:${process.env.PATH}` })
    expect((await started.ended) as unknown[]).not.toEqual([0, null])
    expect(started.said()).toContain('a trial sandbox failed to start')
    expect(started.said()).toContain('does not start without isolation')
    expect(started.said()).not.toContain('listens on')
    expect(readdirSync(path.join(started.home, 'engine/sandboxes'))).toEqual([])
  })

  it('runs without isolation on explicit request', async ({ skip }) => {
    if (needsIsolation) skip(needsIsolation)
    const started = npmStart(['--accept-no-isolation'], { SANDKASTEN_RUNNER: '/no/such/runner' })
    await listening(started)
    expect(started.said()).toMatch(/Sandboxes +NOT isolated/)
    started.npm.kill('SIGTERM')
    await started.ended
  })

  it('reports a wrong option before it changes the machine', async () => {
    const started = npmStart(['--lisen', 'x'], {
      PATH: `${path.join(root, 'node_modules/.bin')}:/usr/bin:/bin`,
    })
    await started.ended
    expect(started.said()).toContain("unknown option '--lisen'")
    expect(started.said()).not.toMatch(/install|apt/)
  })
})
