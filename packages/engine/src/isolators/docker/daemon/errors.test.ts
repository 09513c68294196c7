import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { Daemon } from './daemon.ts'
import { translate } from './errors.ts'

const answer = (statusCode: number, message: string) =>
  Object.assign(new Error(message), { statusCode, json: { message } })

it.each([
  [answer(404, 'No such image: x:1'), { image: 'x:1' }, 'not_found', 'docker pull x:1'],
  [answer(409, 'name in use'), {}, 'conflict', 'name'],
  [answer(400, 'bad parameter'), {}, 'invalid_argument', ''],
  [answer(500, 'write /x: no space left on device'), {}, 'disk_full', 'docker system df'],
  [answer(500, 'boom'), {}, 'provider_error', ''],
  [Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }), {}, 'unavailable', 'DOCKER_HOST'],
  [Object.assign(new Error('denied'), { code: 'EACCES' }), {}, 'unavailable', 'usermod -aG docker'],
])('%s', (cause, context, code, hint) => {
  const error = translate(cause, 'Trying', { where: '/d.sock', sandboxId: 'box', ...context })
  expect(error).toMatchObject({ code, cause, sandboxId: 'box', hint: expect.stringContaining(hint) })
})

it('a missing or forbidden daemon is an error with a hint', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'no-docker-'))
  const missing = new Daemon({ socketPath: join(folder, 'none.sock') })
  expect(missing.seemsThere).toBe(false)
  await expect(missing.facts()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('none.sock'),
    hint: expect.stringContaining('systemctl start docker'),
  })
  // A server that closes the connection counts as unavailable. The next call connects again.
  const path = join(folder, 'mute.sock')
  let visitors = 0
  const server = createServer((socket) => {
    visitors += 1
    socket.destroy()
  }).listen(path)
  await once(server, 'listening')
  chmodSync(path, 0o777)
  const mute = new Daemon({ host: `unix://${path}` })
  await expect(mute.facts()).rejects.toMatchObject({ code: 'unavailable' })
  const before = visitors
  await expect(mute.facts()).rejects.toMatchObject({ code: 'unavailable' })
  expect(visitors).toBeGreaterThan(before)
  server.close()
  rmSync(folder, { recursive: true, force: true })
})

it('a remote daemon is reached over TCP', async () => {
  const asked: string[] = []
  const server = createServer((socket) => {
    socket.once('data', (data) => {
      asked.push(String(data).split('\r\n')[0]!)
      socket.end('HTTP/1.1 503 no\r\nContent-Length: 15\r\n\r\n{"message":"no"}')
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  await expect(new Daemon({ host: `tcp://127.0.0.1:${port}` }).facts()).rejects.toMatchObject({
    code: 'unavailable',
  })
  expect(asked).toContain('GET /version HTTP/1.1')
  server.close()
})

it('an explicit address overrides DOCKER_HOST, which overrides the default sockets', () => {
  const before = process.env.DOCKER_HOST
  process.env.DOCKER_HOST = 'tcp://192.0.2.1:2375'
  try {
    expect(new Daemon({ socketPath: '/a.sock' }).where).toBe('/a.sock')
    expect(new Daemon({ host: 'unix:///b.sock' }).where).toBe('unix:///b.sock')
    expect(new Daemon().where).toBe('tcp://192.0.2.1:2375')
    delete process.env.DOCKER_HOST
    expect(new Daemon().where).toMatch(/\.sock$|pipe/)
  } finally {
    if (before === undefined) delete process.env.DOCKER_HOST
    else process.env.DOCKER_HOST = before
  }
})
