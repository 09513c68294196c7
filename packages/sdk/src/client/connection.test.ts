import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { DaemonProvider } from '../providers/daemon/index.ts'
import { SandboxClient } from './client.ts'
import { daemonConnection } from './connection.ts'

/** Responds like a daemon without sessions, and records the requests. */
const asked: IncomingMessage[] = []
const server = createServer((request, response) => {
  asked.push(request)
  response.setHeader('content-type', 'application/json').end('{"sessions":[]}')
})
let url: string

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => server.close())
afterEach(() => {
  asked.length = 0
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
})

const list = {
  SandboxClient: (options?: object) => new SandboxClient(options).listSessions(),
  DaemonProvider: (options?: object) => new DaemonProvider(options).list(),
}

describe.each(Object.entries(list))('%s', (_, ask) => {
  it('uses the environment without options', async () => {
    vi.stubEnv('SANDKASTEN_URL', `${url}/`)
    vi.stubEnv('SANDKASTEN_API_KEY', 'sk-of-the-environment')
    await ask()
    expect(asked[0]!.headers.authorization).toBe('Bearer sk-of-the-environment')
  })

  it('prefers options to the environment', async () => {
    vi.stubEnv('SANDKASTEN_URL', 'http://127.0.0.1:9')
    vi.stubEnv('SANDKASTEN_API_KEY', 'sk-of-the-environment')
    await ask({ url, apiKey: 'sk-of-the-option' })
    await ask({ baseUrl: url, apiKey: 'sk-of-the-option' })
    expect(asked.map(({ headers }) => headers.authorization)).toEqual(
      Array(2).fill('Bearer sk-of-the-option'),
    )
  })

  it('names missing options', async () => {
    vi.stubEnv('SANDKASTEN_URL', '')
    vi.stubEnv('SANDKASTEN_API_KEY', '')
    const missing = async (options?: object) => ask(options).catch((error: unknown) => error)
    const wrap = (options?: object) =>
      Promise.resolve()
        .then(() => missing(options))
        .catch((error: unknown) => error)
    expect(await wrap()).toMatchObject({
      code: 'invalid_argument',
      hint: expect.stringContaining('SANDKASTEN_URL'),
    })
    expect(await wrap({ url })).toMatchObject({
      code: 'invalid_argument',
      hint: expect.stringContaining('SANDKASTEN_API_KEY'),
    })
    expect(await wrap({ url, baseUrl: 'http://other', apiKey: 'k' })).toMatchObject({
      code: 'invalid_argument',
    })
  })
})

describe('without an environment', () => {
  const refuses = {
    get env(): never {
      throw new Error('NotCapable: requires env access')
    },
  }

  it.each([
    ['no process', undefined],
    ['a process without env', {}],
    ['an environment that is refused', refuses],
  ])('%s', (_, process) => {
    vi.stubGlobal('process', process)
    expect(daemonConnection({ url: 'http://daemon/', apiKey: 'k' })).toEqual({
      url: 'http://daemon',
      apiKey: 'k',
    })
    expect(() => daemonConnection()).toThrow('must begin with http')
  })
})
