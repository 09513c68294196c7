import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { key, sandkasten, start, testDaemon } from '../helper.ts'

/** A server that is not our daemon and records what it receives. */
async function stranger(answer: { status: number; location?: () => string }) {
  const got: Array<{ url: string; headers: string; body: string }> = []
  const server: Server = createServer((request, response) => {
    let body = ''
    request.setEncoding('utf8').on('data', (text) => {
      body += text
    })
    request.on('end', () => {
      got.push({ url: request.url!, headers: JSON.stringify(request.rawHeaders), body })
      response.writeHead(answer.status, answer.location ? { location: answer.location() } : {}).end('{}')
    })
  })
  server.on('upgrade', (request, socket) => {
    got.push({ url: request.url!, headers: JSON.stringify(request.rawHeaders), body: '' })
    socket.destroy()
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { got, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server }
}

describe('the stored key of a local daemon', () => {
  let local: Awaited<ReturnType<typeof testDaemon>>
  let other: Awaited<ReturnType<typeof stranger>>
  let turning: Awaited<ReturnType<typeof stranger>>
  let storedKey: string
  let env: Record<string, string>
  beforeAll(async () => {
    local = await testDaemon({})
    other = await stranger({ status: 200 })
    turning = await stranger({ status: 307, location: () => `${other.url}/taken` })
    storedKey = (await readFile(path.join(local.home, 'data/cli-key'), 'utf8')).trim()
    env = { SANDKASTEN_HOME: path.join(local.home, 'data') }
  })
  beforeEach(() => {
    other.got.length = 0
    turning.got.length = 0
  })
  afterAll(async () => {
    other?.server.close()
    turning?.server.close()
    await local?.close()
  })

  it('is used for that daemon, with and without --url', async () => {
    expect(await sandkasten(['status'], env)).toMatchObject({ code: 0 })
    expect(await sandkasten(['status'], { ...env, SANDKASTEN_URL: local.daemon.url })).toMatchObject({
      code: 0,
    })
    expect(await sandkasten(['status', '--url', `${local.daemon.url}/`], env)).toMatchObject({ code: 0 })
  })

  it.each([
    ['status'],
    ['sessions', 'create', '-e', 'SECRET=1'],
    ['exec', 'aaaaaaaaaaaaaaaa', '--', 'true'],
    ['shell', 'aaaaaaaaaaaaaaaa'],
    ['cp', '/etc/hostname', 'aaaaaaaaaaaaaaaa:x'],
    ['keys', 'list'],
  ])('is not sent to another address: %s', async (...args) => {
    const ran = await sandkasten(args, { ...env, SANDKASTEN_URL: other.url })
    expect(ran.code).toBe(125)
    expect(ran.stderr).toContain(`No key is set for the daemon at ${other.url}`)
    expect(ran.stderr).toContain('SANDKASTEN_API_KEY')
    expect(other.got).toEqual([])
  })

  it('is not sent to the same port under another name, or with another scheme', async () => {
    const { port } = new URL(local.daemon.url)
    for (const url of [`http://localhost:${port}`, `https://127.0.0.1:${port}`, `http://127.0.0.1:${port}0`])
      expect((await sandkasten(['status', '--url', url], env)).stderr).toContain('No key is set for')
  })

  it('is not sent to the port of a daemon that was killed', async () => {
    const home = path.join(local.home, 'killed')
    const killed = start(['up', '--isolator', 'process', '--listen', '127.0.0.1:0', '--json'], {
      SANDKASTEN_HOME: home,
    })
    const [line] = await once(killed.stdout!.setEncoding('utf8'), 'data')
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    const { port } = new URL(JSON.parse(line).url)
    const squatter = await stranger({ status: 200 })
    squatter.server.close()
    const taken = createServer((request, response) => {
      squatter.got.push({ url: request.url!, headers: JSON.stringify(request.rawHeaders), body: '' })
      response.end('{}')
    }).listen(Number(port), '127.0.0.1')
    try {
      await once(taken, 'listening')
      const ran = await sandkasten(['status'], { SANDKASTEN_HOME: home })
      expect(ran).toMatchObject({ code: 125, stderr: expect.stringContaining('No daemon runs') })
      expect(squatter.got).toEqual([])
    } finally {
      taken.close()
      await rm(home, { recursive: true, force: true })
    }
  })

  it('and a key from the environment do not follow a redirect, and neither does a body', async () => {
    const given = { SANDKASTEN_URL: turning.url, SANDKASTEN_API_KEY: key }
    for (const args of [
      ['status'],
      ['sessions', 'create', '-e', 'SECRET=very-secret'],
      ['cp', '/etc/hostname', 'aaaaaaaaaaaaaaaa:x'],
    ]) {
      const ran = await sandkasten(args, given)
      expect(ran).toMatchObject({ code: 125, stderr: expect.stringContaining('redirect') })
      expect(`${ran.stdout}${ran.stderr}`).not.toContain(key)
    }
    expect(turning.got.length).toBeGreaterThan(0)
    expect(other.got).toEqual([])
    expect(JSON.stringify([turning.got, other.got])).not.toContain(storedKey)
  })

  it('a malformed address is an error that hides its password', async () => {
    const ran = await sandkasten(['status', '--url', 'ftp://me:hunter2@example'], {
      ...env,
      SANDKASTEN_API_KEY: key,
    })
    expect(ran).toMatchObject({
      code: 125,
      stderr: expect.stringContaining('not an http:// or https:// URL'),
    })
    expect(ran.stderr).not.toContain('hunter2')
  })
})
