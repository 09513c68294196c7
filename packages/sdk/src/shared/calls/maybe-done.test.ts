import { expect, it } from 'vitest'
import { SandboxError } from '../../errors.ts'
import { maybeDone } from './maybe-done.ts'

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
