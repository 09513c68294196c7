import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, createServer as createSocketServer } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { posixCommands } from './index.ts'

describe.each(['python3', 'node'] as const)('connect of posixCommands({ server: %j })', (server) => {
  let http: Server
  const silent = createSocketServer((socket) => socket.end())
  const portOf = (listener: { address(): unknown }) => (listener.address() as AddressInfo).port
  beforeAll(async () => {
    http = createServer((_, response) => response.end('hello')).listen(0, '127.0.0.1')
    http.keepAliveTimeout = 60_000
    silent.listen(0, '127.0.0.1')
    await Promise.all([once(http, 'listening'), once(silent, 'listening')])
  })
  afterAll(() => {
    http.closeAllConnections()
    http.close()
    silent.close()
  })

  function connect(port: number) {
    const { cmd, args } = posixCommands({ server }).connect!('127.0.0.1', port)
    const program = spawn(cmd, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = once(program, 'exit').then(([code]) => code as number)
    program.stdout.setEncoding('utf8')
    return { program, ended }
  }

  it('prints that the connection is open, and that it is closed', async () => {
    const { program, ended } = connect(portOf(http))
    expect(await once(program.stdout, 'data')).toEqual(['open\n'])
    http.closeAllConnections()
    expect(await once(program.stdout, 'data')).toEqual(['closed\n'])
    expect(await ended).toBe(0)
  })

  it('exits with 1 if the connection ends without a response, or is refused', async () => {
    expect(await connect(portOf(silent)).ended).toBe(1)
    const unused = createSocketServer().listen(0, '127.0.0.1')
    await once(unused, 'listening')
    const port = portOf(unused)
    await new Promise((resolve) => unused.close(resolve))
    expect(await connect(port).ended).toBe(1)
  })
})
