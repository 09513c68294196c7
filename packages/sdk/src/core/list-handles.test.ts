import { expect, it } from 'vitest'
import { SandboxError } from '../errors.ts'
import type { SandboxInfo, SandboxPage, SandboxStatus } from '../spec/index.ts'
import { handlesOf } from './list-handles.ts'

const info = (sandboxId: string, status: SandboxStatus = 'running'): SandboxInfo => ({
  id: `x:${sandboxId}`,
  sandboxId,
  status,
  labels: {},
})

it('opens at most eight sandboxes at once, and keeps their order and the cursor', async () => {
  const page: SandboxPage = Array.from({ length: 50 }, (_, at) => info(`${at}`))
  page.nextCursor = 'next'
  let [open, most] = [0, 0]
  const handles = await handlesOf(page, async ({ sandboxId }) => {
    open += 1
    most = Math.max(most, open)
    await new Promise((resolve) => setTimeout(resolve, Number(sandboxId) % 3))
    open -= 1
    return sandboxId
  })
  expect(most).toBe(8)
  expect([handles.join(), handles.nextCursor]).toEqual([
    page.map(({ sandboxId }) => sandboxId).join(),
    'next',
  ])
})

it('leaves out what cannot be used: unfinished, failed and removed sandboxes', async () => {
  const page = [info('a'), info('b', 'creating'), info('c', 'failed'), info('gone'), info('d', 'stopped')]
  const opened: string[] = []
  const handles = await handlesOf(page, async ({ sandboxId }) => {
    opened.push(sandboxId)
    if (sandboxId === 'gone') throw new SandboxError('not_found', 'removed')
    return sandboxId
  })
  expect([handles, opened]).toEqual([
    ['a', 'd'],
    ['a', 'gone', 'd'],
  ])
})

it('rejects for any other error: a partial list looks complete', async () => {
  const outage = new SandboxError('unavailable', 'down')
  await expect(handlesOf([info('a'), info('b')], () => Promise.reject(outage))).rejects.toBe(outage)
})
