import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'

const bin = path.resolve(import.meta.dirname, '../../bin/sandkasten.js')

async function logOf(args: string[], { terminal }: { terminal: boolean }): Promise<string> {
  const home = mkdtempSync(path.join(tmpdir(), 'sandkasten-log-'))
  onTestFinished(() => rmSync(home, { recursive: true, force: true }))
  const line = [bin, 'up', '--isolator', 'process', '--listen', '127.0.0.1:0', ...args]
  const [program, list] = terminal
    ? ['/usr/bin/script', ['-qefc', [process.execPath, ...line].join(' '), '/dev/null']]
    : [process.execPath, line]
  const env = { PATH: process.env.PATH, HOME: home, SANDKASTEN_HOME: home, SHELL: '/bin/sh', TERM: 'xterm' }
  const child = spawn(program, list as string[], { env, cwd: home })
  let text = ''
  for (const stream of terminal ? [child.stdout] : [child.stderr])
    stream.on('data', (data) => {
      text += data
    })
  const ended = once(child, 'close')
  await expect.poll(() => existsSync(path.join(home, 'address')), { interval: 100 }).toBe(true)
  const { pid } = JSON.parse(readFileSync(path.join(home, 'daemon.lock'), 'utf8'))
  process.kill(pid, 'SIGTERM')
  await ended
  return text
}

describe('the log of sandkasten up', () => {
  it('is text in colors on a terminal', async ({ skip }) => {
    if (!existsSync('/usr/bin/script')) skip('needs script(1)')
    const log = await logOf([], { terminal: true })
    expect(log).toContain('\x1b[32mINFO \x1b[0m listening ')
    expect(log).not.toContain('{"level"')
  })

  it('is JSON on a terminal on request', async ({ skip }) => {
    if (!existsSync('/usr/bin/script')) skip('needs script(1)')
    expect(await logOf(['--log-format', 'json'], { terminal: true })).toContain('{"level":30,')
  })

  it('is JSON elsewhere, or text without colors', async () => {
    expect(await logOf([], { terminal: false })).toMatch(/^\{"level":30,.*"msg":"listening"\}$/m)
    expect(await logOf(['--log-format', 'text'], { terminal: false })).toMatch(
      /^[\d:.]+ INFO {2}listening url=/m,
    )
  })
})
