import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { OutputEvent, ProcessCore, ProcessExit, SandboxCore } from '@sandkasten/sdk'
import { expect, it } from 'vitest'
import { opencode } from '../agents/opencode.ts'
import type { Settings } from '../bootstrap/settings.ts'
import { FollowedProcess } from './follow.ts'
import { becomesHealthy } from './ready.ts'

it('does not wait for requests that the server leaves unanswered because they came early', async () => {
  let isReady = false
  const early: ServerResponse[] = []
  const arrived = Promise.withResolvers<void>()
  const server = createServer((_, response) => {
    if (isReady) response.end('{"healthy":true}')
    else early.push(response)
    arrived.resolve()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  async function* output(): AsyncGenerator<OutputEvent | ProcessExit> {
    await arrived.promise
    isReady = true
    yield { type: 'stderr', data: Buffer.from('opencode server listening on http://x\n'), seq: 1 }
    await new Promise(() => {})
  }
  const followed = new FollowedProcess({ output } as unknown as ProcessCore, opencode.server!.listening)
  const settings = { agent: opencode, redact: (text: string) => text, deadlineMs: 20_000 } as Settings
  try {
    const signal = new AbortController().signal
    const url = `http://127.0.0.1:${port}`
    const healthy = becomesHealthy({} as SandboxCore, url, {}, followed, settings, signal)
    await healthy.finally(() => expect(early.map(({ destroyed }) => destroyed)).toEqual([false]))
  } finally {
    server.closeAllConnections()
    server.close()
  }
})
