import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { Authorities } from './authorities.ts'
import type { ControlConnection } from './control.ts'

const base = mkdtempSync(path.join(tmpdir(), 'sandkasten-authorities-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

/** A gateway that makes numbered authorities. With `broken`, its connection has ended. */
function gateway() {
  const state = { made: 0, broken: false }
  const request = async () => {
    if (state.broken) throw new Error('the gateway ended')
    state.made += 1
    return { cert: `cert ${state.made}`, key: `key ${state.made}` }
  }
  return { state, connection: { request } as unknown as ControlConnection }
}

const folder = async (name: string) => {
  await mkdir(path.join(base, name))
  return path.join(base, name)
}

it('each sandbox has its own, also at the same time, and keeps it', async () => {
  const { connection } = gateway()
  const authorities = new Authorities()
  const folders = await Promise.all(Array.from({ length: 20 }, (_, at) => folder(`own-${at}`)))
  const first = await authorities.in(folders[0]!, connection)
  authorities.prepare(connection)
  const rest = await Promise.all(folders.slice(1).map((one) => authorities.in(one, connection)))
  expect(new Set([first, ...rest].map(({ key }) => key)).size).toBe(20)
  expect(await authorities.in(folders[0]!, connection)).toEqual(first)
  expect(JSON.parse(readFileSync(path.join(folders[0]!, 'authority.json'), 'utf8'))).toEqual(first)
})

it('the next one is there before it is needed', async () => {
  const { state, connection } = gateway()
  const authorities = new Authorities()
  authorities.prepare(connection)
  authorities.prepare(connection)
  state.broken = true
  expect(await authorities.in(await folder('next-2'), connection)).toEqual({ cert: 'cert 1', key: 'key 1' })
})

it('a gateway that failed to prepare one is asked again', async () => {
  const { state, connection } = gateway()
  const authorities = new Authorities()
  state.broken = true
  authorities.prepare(connection)
  state.broken = false
  expect(await authorities.in(await folder('again-1'), connection)).toEqual({ cert: 'cert 1', key: 'key 1' })
  state.broken = true
  await expect(authorities.in(await folder('again-2'), connection)).rejects.toThrow('the gateway ended')
})
