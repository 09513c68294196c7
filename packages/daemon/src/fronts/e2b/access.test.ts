import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { FastifyRequest } from 'fastify'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import type { Services } from '../../http/services.ts'
import type { Session } from '../../sessions/index.ts'
import { Access } from './access.ts'
import { Budget } from './attempt-budget.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sk-access-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const request = { id: 'r' } as FastifyRequest
const sessions = ['a', 'b', 'c'].map((id) => ({ id, project_id: 'p' }) as Session)
const wrong = { path: 'x', operation: 'read', username: '', signature: `v1_${'A'.repeat(43)}` } as const

function services() {
  const usableIds = vi.fn(async () => ['works'])
  const callerOf = vi.fn(async (projectId: string, keyId: string) => ({ projectId, keyId, scopes: ['exec'] }))
  return { config: { data_dir: folder }, keys: { usableIds, callerOf } } as unknown as Services
}

describe('a signature that names no sandbox', () => {
  const access = (now: () => number) => new Access(services(), new Budget(500, now))
  const signed = async (from: Access, keyId: string) => {
    const text = `x:read::${await from.tokenOf('b', keyId)}`
    return { ...wrong, signature: `v1_${createHash('sha256').update(text).digest('base64').slice(0, 43)}` }
  }

  it('is tried with usable keys only', async () => {
    const own = access(() => 0)
    const tokens = vi.spyOn(own, 'tokenOf')
    const among = { sessions: async () => sessions, all: true }
    await expect(own.signature(request, among, wrong)).rejects.toMatchObject({ code: 'unauthenticated' })
    expect(tokens.mock.calls).toEqual(sessions.map(({ id }) => [id, 'works']))
    const found = await own.signature(request, among, await signed(own, 'works'))
    expect([found.session.id, found.caller.keyId]).toEqual(['b', 'works'])
    await expect(own.signature(request, among, await signed(own, 'revoked'))).rejects.toMatchObject({
      code: 'unauthenticated',
    })
  })

  it('has a limited number of failed attempts, which recovers; a valid one is free', async () => {
    let clock = 0
    const own = access(() => clock)
    const look = vi.fn(async () => sessions)
    const right = await signed(own, 'works')
    const among = { sessions: look, all: true }
    for (let times = 0; times < 50; times += 1) await own.signature(request, among, right)
    look.mockClear()
    const refused = async () => {
      let code = ''
      await own.signature(request, among, wrong).catch((error) => {
        code = error.code
      })
      return code
    }
    let tries = 0
    while ((await refused()) === 'unauthenticated' && tries < 1000) tries += 1
    // Each attempt costs 53 of 500.
    expect([tries, look.mock.calls.length]).toEqual([10, 10])
    expect(await refused()).toBe('rate_limited')
    // A signature that names its sandbox is always checked, for that sandbox alone.
    const alone = { sessions: async () => [sessions[1]!], all: false }
    expect((await own.signature(request, alone, right)).session.id).toBe('b')
    clock += 1000
    expect(await refused()).toBe('unauthenticated')
  })
})
