import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { start } from '../helper.ts'
import { type Place, temporaryPlace } from './place.ts'
import { keys, onTerminal } from './pty.ts'

/** Accepts requests and never answers. */
let silent: Server
let requests = 0
beforeAll(async () => {
  silent = createServer(() => {
    requests += 1
  })
  await once(silent.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => {
  silent.closeAllConnections()
  silent.close()
})
const address = () => `http://127.0.0.1:${(silent.address() as AddressInfo).port}`

describe('a create that is interrupted', () => {
  let place: Place
  beforeAll(async () => {
    place = await temporaryPlace()
  })
  afterAll(() => place?.close())
  const cloning = () => [
    'sandbox',
    'create',
    'cut',
    '--yes',
    '--provider',
    'local',
    '--repo',
    `${address()}/x.git`,
  ]

  async function nothingIsLeft(): Promise<void> {
    expect(
      (await place.json<Array<{ name: string }>>(['list'])).filter(({ name }) => name === 'cut'),
    ).toEqual([])
    const folders = readdirSync(place.home, { recursive: true, withFileTypes: true }).filter(
      (entry) => entry.isDirectory() && path.basename(entry.parentPath) === 'sandboxes',
    )
    expect(folders.map(({ name }) => name)).toEqual([])
    // The name is free.
    await place.ok(['create', 'cut', '--yes', '--provider', 'local'])
    await place.ok(['destroy', 'cut', '--yes'])
  }

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('by %s cleans up and says so', async (signal, code) => {
    const before = requests
    const child = start(cloning(), place.env, { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    await expect.poll(() => requests).toBeGreaterThan(before)
    child.kill(signal)
    expect(await once(child, 'close')).toEqual([code, null])
    expect(said).toContain('interrupted; removing what was made of cut')
    expect(said).toContain('cut was not created.')
    await nothingIsLeft()
  })

  it('by Ctrl-C on a terminal cleans up, too', async () => {
    const before = requests
    const pty = onTerminal(cloning(), place.env, place.home)
    await expect.poll(() => requests).toBeGreaterThan(before)
    pty.type(keys.interrupt)
    expect(await pty.ended()).toBe(130)
    expect(pty.raw).toContain('cut was not created.')
    await nothingIsLeft()
  })

  it('by a closed terminal cleans up, although its output has no reader', async () => {
    const before = requests
    const child = start(cloning(), place.env, { stdio: ['ignore', 'pipe', 'pipe'] })
    await expect.poll(() => requests).toBeGreaterThan(before)
    child.stdout!.destroy()
    child.stderr!.destroy()
    child.kill('SIGHUP')
    expect(await once(child, 'close')).toEqual([129, null])
    await nothingIsLeft()
  })

  it('twice leaves at once, and says what may stay', async () => {
    await place.ok(['setup', 'daemon', '--url', address(), '--stdin', '--no-check'], { input: 'sk-silent' })
    const before = requests
    const args = ['sandbox', 'create', 'stuck', '--yes', '--provider', 'daemon']
    const child = start(args, place.env, { stdio: ['ignore', 'pipe', 'pipe'] })
    let said = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      said += text
    })
    await expect.poll(() => requests).toBeGreaterThan(before)
    child.kill('SIGINT')
    await expect.poll(() => said).toContain('Press Ctrl-C again')
    child.kill('SIGINT')
    expect(await once(child, 'close')).toEqual([130, null])
    expect(said).toContain('A part of stuck may remain')
    expect(said).toContain('sandkasten sandbox prune')
    const rows = await place.json<Array<{ name: string; status: string }>>(['list'])
    expect(rows).toMatchObject([{ name: 'stuck' }])
  })
})
