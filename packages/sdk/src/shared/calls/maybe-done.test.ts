import { expect, it } from 'vitest'
import { SandboxError } from '../../errors.ts'
import { afterStart, maybeDone } from './maybe-done.ts'

it('a command whose connection was lost may have run, so the error is not retryable', () => {
  const lost = new SandboxError('connection_lost', 'gone', { sandboxId: 'x', details: { a: 1 } })
  expect(lost.retryable).toBe(true)
  const told = maybeDone(lost) as SandboxError
  expect(told).toMatchObject({ code: 'connection_lost', retryable: false, sandboxId: 'x', details: { a: 1 } })
  expect(told.hint).not.toMatch(/nothing is lost/)
  expect(told.cause).toBe(lost)
  expect(maybeDone(told)).toBe(told)
  const other = new SandboxError('not_running', 'stopped')
  expect(maybeDone(other)).toBe(other)
})

it('a command that had started says so when its sandbox stops', () => {
  const stopped = new SandboxError('not_running', 'stopped', { sandboxId: 'x', details: { a: 1 } })
  const told = afterStart(stopped) as SandboxError
  expect(told).toMatchObject({ code: 'not_running', sandboxId: 'x', details: { a: 1, started: true } })
  expect([told.hint, told.cause]).toEqual([stopped.hint, stopped])
  const lost = afterStart(new SandboxError('connection_lost', 'gone')) as SandboxError
  expect(lost).toMatchObject({ retryable: false })
  const outage = afterStart(new SandboxError('unavailable', 'away')) as SandboxError
  expect(outage).toMatchObject({ retryable: false, details: { started: true }, hint: lost.hint })
  const other = new SandboxError('timeout', 'late', { retryable: false })
  expect(afterStart(other)).toBe(other)
})
