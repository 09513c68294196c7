import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import { runProgram } from './run-program.ts'

it('kills a cancelled program together with its children', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'program-'))
  try {
    const pidFile = join(folder, 'pid')
    // The program ignores SIGTERM, like mmdebstrap.
    const script = `trap : TERM; sleep 1000 & echo $! > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; wait; wait`
    const cancel = new AbortController()
    const running = runProgram({ cmd: 'sh', args: ['-c', script], install: '', signal: cancel.signal })
    await vi.waitFor(() => expect(existsSync(pidFile)).toBe(true), { timeout: 20_000 })
    cancel.abort()
    await expect(running).rejects.toMatchObject({ code: 'aborted' })
    const state = () => /^State:\s+(\w)/m.exec(statusOf(Number(readFileSync(pidFile, 'utf8'))))?.[1]
    // The process is gone, or a zombie that its new parent has not reaped yet.
    await vi.waitFor(() => expect([undefined, 'Z', 'X']).toContain(state()), { timeout: 20_000 })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('reports the exit code and the last line of stderr', async () => {
  const failing = runProgram({
    cmd: 'sh',
    args: ['-c', 'echo first >&2; echo last words >&2; exit 4'],
    install: '',
  })
  await expect(failing).rejects.toMatchObject({
    code: 'provider_error',
    message: expect.stringMatching(/\(4\).*last words/),
  })
  const missing = runProgram({ cmd: 'no-such-program', args: [], install: 'apt-get install it' })
  await expect(missing).rejects.toMatchObject({ code: 'unavailable', hint: 'Run: apt-get install it' })
})

function statusOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}
