import { execFile, spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { locateRunner } from '@sandkasten/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/** Tests the systemd unit without systemd: parses its lines and runs its command. */
const file = path.resolve(import.meta.dirname, '../../../daemon/systemd/sandkasten.service')
const lines = readFileSync(file, 'utf8').split('\n')
const value = (key: string) => lines.find((line) => line.startsWith(`${key}=`))?.slice(key.length + 1)

async function isolator(): Promise<'oci' | 'process'> {
  const root = process.platform === 'linux' && process.getuid?.() === 0
  const crun = ['/usr/bin/crun', '/usr/local/bin/crun'].some((program) => existsSync(program))
  return root && crun && (await locateRunner().catch(() => undefined)) ? 'oci' : 'process'
}

describe('sandkasten.service', () => {
  let folder: string
  let env: Record<string, string>
  let kind: 'oci' | 'process'
  beforeAll(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'sandkasten-unit-'))
    kind = await isolator()
    const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')
    const program = path.join(folder, 'sandkasten')
    await writeFile(program, `#!/bin/sh\nexec ${process.execPath} ${bin} "$@"\n`)
    await chmod(program, 0o755)
    await writeFile(
      path.join(folder, 'sandkasten.yaml'),
      `listen: "127.0.0.1:0"\ndata_dir: ${folder}/data\nisolator: ${kind}\n`,
    )
    const [name, text] = value('Environment')!.split('=') as [string, string]
    env = { PATH: `${folder}:${process.env.PATH}`, HOME: folder, [name]: text }
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** Like systemd: runs the words of ExecStart without a shell. */
  async function start() {
    const [program, ...args] = value('ExecStart')!
      .replace('/etc/sandkasten/sandkasten.yaml', `${folder}/sandkasten.yaml`)
      .split(' ')
    const child = spawn(program!, args, { env, stdio: ['ignore', 'pipe', 'ignore'] })
    const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
    let said = ''
    const reader = createInterface(child.stdout)
    reader.on('line', (line) => {
      said += `${line}\n`
    })
    await Promise.race([
      new Promise<void>((resolve) => reader.on('line', (line) => line.includes('/exec') && resolve())),
      ended.then((how) => {
        throw new Error(`it ended with ${how}: ${said}`)
      }),
    ])
    return { said, ended, child }
  }

  const sandkasten = async (...args: string[]) => {
    const config = ['-c', path.join(folder, 'sandkasten.yaml')]
    const [command, ...rest] = args
    const words = command === 'exec' ? [command, ...config, ...rest] : [...args, ...config]
    return (await promisify(execFile)(path.join(folder, 'sandkasten'), words, { env })).stdout.trim()
  }

  it('is valid for systemd-analyze', async ({ skip }) => {
    const analyze = '/usr/bin/systemd-analyze'
    if (!existsSync(analyze)) skip('systemd-analyze is not installed')
    const { stdout, stderr } = await promisify(execFile)(analyze, ['verify', '--man=no', file])
    expect(`${stdout}${stderr}`).not.toMatch(/sandkasten\.service/)
  })

  it('starts the daemon, ends it with its signal, and leaves sandboxes to the next daemon', async () => {
    const first = await start()
    // The pattern that the unit's comment gives for finding the key.
    const [, hint] = /grep -A2 '(.*)'/.exec(lines.join('\n'))!
    const at = first.said.split('\n').findIndex((line) => line.includes(hint!))
    expect(
      first.said
        .split('\n')
        .slice(at, at + 3)
        .join('\n'),
    ).toMatch(/sk-sandkasten-[a-z2-7]{32}/)
    const id = await sandkasten('sessions', 'create')
    await sandkasten('exec', id, '--', 'cd /tmp; KEPT=yes; sleep 600 & true')
    // KillMode=process: only the daemon gets the signal.
    expect(value('KillMode')).toBe('process')
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(0)
    const second = await start()
    try {
      expect(second.said).not.toContain('sk-sandkasten-')
      if (kind === 'oci')
        expect(await sandkasten('exec', id, '--', 'echo $KEPT in $PWD; jobs -p | wc -l')).toBe(
          'yes in /tmp\n1',
        )
      else expect(await sandkasten('exec', id, '--', 'echo there')).toBe('there')
      await sandkasten('sessions', 'destroy', id)
    } finally {
      second.child.kill('SIGTERM')
      expect(await second.ended).toBe(0)
    }
  })
})
