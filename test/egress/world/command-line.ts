import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { globSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { ControlConnection } from '../../../packages/engine/src/egress/control.ts'
import type { World } from './world.ts'

export interface Ran {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** The command `sandkasten` on the host of a world, with a home of its own. */
export interface CommandLine extends AsyncDisposable {
  readonly home: string
  run(args: readonly string[], options?: { input?: string; env?: Record<string, string> }): Promise<Ran>
  /** The same, and fails unless it succeeds. */
  ok(args: readonly string[], options?: { input?: string; env?: Record<string, string> }): Promise<string>
  /** Kills the gateway. False: none runs. */
  killGateway(): Promise<boolean>
}

export function commandLine(world: World): CommandLine {
  const home = mkdtempSync(join(world.folder, 'home-'))
  const runFolder = `/run/skt-${randomBytes(4).toString('hex')}`
  const node = [process.execPath, resolve(import.meta.dirname, '../../../packages/cli/bin/sandkasten.js')]
  const env = {
    ...process.env,
    HOME: home,
    SANDKASTEN_HOME: join(home, 'data'),
    SANDKASTEN_RUN_DIR: runFolder,
  }
  const run: CommandLine['run'] = (args, { input = '', env: more } = {}) =>
    new Promise((done, failed) => {
      const command = ['--pdeathsig', 'TERM', ...world.enter, ...node, ...args]
      const child = spawn('setpriv', command, { env: { ...env, ...more }, stdio: 'pipe' })
      let [stdout, stderr] = ['', '']
      child.stdout.setEncoding('utf8').on('data', (text) => {
        stdout += text
      })
      child.stderr.setEncoding('utf8').on('data', (text) => {
        stderr += text
      })
      child.once('error', failed)
      child.once('close', (code) => done({ code, stdout, stderr }))
      // The command may end without reading its input.
      child.stdin.on('error', () => {})
      child.stdin.end(input)
    })
  const killGateway = async () => {
    let found = false
    for (const socket of globSync(`${runFolder}/**/control.sock`)) {
      const gateway = await ControlConnection.open(socket).catch(() => undefined)
      const pid = (await gateway?.request('hello', { version: 1 }))?.pid
      if (typeof pid !== 'number') continue
      process.kill(pid, 'SIGKILL')
      found = true
    }
    return found
  }
  return {
    home,
    run,
    async ok(args, options) {
      const { code, stdout, stderr } = await run(args, options)
      if (code !== 0) throw new Error(`sandkasten ${args.join(' ')}: ${code} ${stderr}`)
      return stdout.trim()
    },
    killGateway,
    async [Symbol.asyncDispose]() {
      const listed = JSON.parse((await run(['sandbox', 'list', '--json'])).stdout || '[]')
      const names = (listed as Array<{ name: string }>).map(({ name }) => name)
      if (names.length > 0) await run(['sandbox', 'destroy', '--yes', '--force', ...names])
      await killGateway()
      rmSync(runFolder, { recursive: true, force: true })
    },
  }
}
