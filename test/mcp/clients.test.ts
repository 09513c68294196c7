import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { Client as V1Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as V1StdioTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport as V1HttpTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { start } from '../../packages/cli/test/helper.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()

interface Result {
  content: Array<{
    type: string
    text: string
    data?: string
    mimeType?: string
    resource?: { blob: string }
  }>
  _meta?: Record<string, unknown>
  isError?: boolean
}

interface CallOptions {
  signal?: AbortSignal
  onprogress?: (progress: { message?: string }) => void
}

/** One interface to clients of both versions of the SDK. */
interface AnyClient {
  readonly tools: string[]
  call(name: string, input?: object, options?: CallOptions): Promise<Result>
  close(): Promise<void>
}

const info = { name: 'test', version: '1.0.0' }

async function v2(transport: Parameters<Client['connect']>[0], modern = false): Promise<AnyClient> {
  const client = new Client(info, modern ? { versionNegotiation: { mode: 'auto' } } : {})
  await client.connect(transport)
  const { tools } = await client.listTools()
  return {
    tools: tools.map(({ name }) => name),
    call: async (name, input = {}, options) =>
      (await client.callTool({ name, arguments: { ...input } }, options)) as Result,
    close: () => client.close(),
  }
}

async function v1(transport: Parameters<V1Client['connect']>[0]): Promise<AnyClient> {
  const client = new V1Client(info)
  await client.connect(transport)
  const { tools } = await client.listTools()
  return {
    tools: tools.map(({ name }) => name),
    call: async (name, input = {}, options) =>
      (await client.callTool({ name, arguments: { ...input } }, undefined, options)) as Result,
    close: () => client.close(),
  }
}

const facts = ({ _meta }: Result) => (_meta?.['sandkasten/facts'] ?? {}) as Record<string, unknown>
const text = ({ content }: Result) => content.map((one) => one.text ?? '').join('\n')

describe.skipIf(missing)('MCP clients', () => {
  let place: McpPlace
  let http: ReturnType<typeof start>
  let url: URL
  let headers: Record<string, string>
  beforeAll(async () => {
    place = await mcpPlace()
    await writeFile(path.join(place.home, 'upload.txt'), 'from the host')
    const token = await place.token()
    const args = ['mcp', '--sandbox', 'web', '--listen', '0', '--allow-folder', place.home]
    http = start(args, { ...place.env, SANDKASTEN_MCP_TOKEN: token }, { stdio: ['ignore', 'ignore', 'pipe'] })
    url = await new Promise<URL>((resolve) => {
      let said = ''
      http.stderr!.on('data', (chunk) => {
        said += chunk
        const found = /MCP is at (\S+);/.exec(said)
        if (found) resolve(new URL(found[1]!))
      })
    })
    headers = { authorization: `Bearer ${token}` }
  }, 60_000)
  afterAll(async () => {
    http?.kill()
    await place?.close()
  })

  const stdio = () => {
    const { command, args, env } = place.server
    return { command, args: [...args, '--allow-folder', place.home], env }
  }
  const clients: Array<[string, () => Promise<AnyClient>]> = [
    ['v2 over stdio', () => v2(new StdioClientTransport(stdio()))],
    ['v2 over stdio, newest protocol', () => v2(new StdioClientTransport(stdio()), true)],
    ['v1 over stdio', () => v1(new V1StdioTransport(stdio()))],
    ['v2 over HTTP', () => v2(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))],
    [
      'v2 over HTTP, newest protocol',
      () => v2(new StreamableHTTPClientTransport(url, { requestInit: { headers } }), true),
    ],
    ['v1 over HTTP', () => v1(new V1HttpTransport(url, { requestInit: { headers } }) as never)],
  ]

  it.each(clients)(
    '%s: lists and calls every tool',
    async (_, connect) => {
      const client = await connect()
      const called = new Set<string>()
      const call: AnyClient['call'] = (name, ...rest) => {
        called.add(name)
        return client.call(name, ...rest)
      }
      try {
        const ran = await call('run_command', { cmd: 'echo out; echo err >&2; exit 3' })
        expect(text(ran)).toBe('exit=3\nout\nerr\n')
        expect(facts(ran)).toEqual({ exitCode: 3 })
        expect(ran.isError ?? false).toBe(false)
        expect(text(await call('write_file', { path: 'src/a.ts', content: 'one\ntwo\n' }))).toMatch(/Wrote 8/)
        expect(text(await call('edit_file', { path: 'src/a.ts', oldString: 'two', newString: '2' }))).toBe(
          'Replaced 1 of 1 in src/a.ts, at line 2.',
        )
        expect(text(await call('read_file', { path: 'src/a.ts' }))).toBe('one\n2')
        expect(text(await call('list_files', { path: 'src' }))).toBe('a.ts (6 B)')
        expect(text(await call('search', { pattern: '^o.e$', path: 'src' }))).toBe('a.ts:1: one')
        const localPath = path.join(place.home, 'upload.txt')
        expect(text(await call('upload_file', { localPath, remotePath: 'up' }))).toBe(
          'Uploaded 13 bytes to up.',
        )
        const started = await call('start_process', { cmd: 'echo up; sleep 100' })
        expect(text(started)).toMatch(/^mcp-\w+ is running; after=\d+\nup\n$/)
        const { execId, after } = facts(started)
        expect(text(await call('status'))).toContain(`- ${execId} echo up; sleep 100`)
        expect(text(await call('read_process', { execId, after }))).toBe(
          `${execId} is running; after=${after}`,
        )
        expect(text(await call('stop_process', { execId }))).toMatch(/ended with exit=143/)
        const ended = await call('read_process', { execId })
        expect(facts(ended)).toMatchObject({ running: false, exitCode: 143 })
        expect(text(ended)).toMatch(/ended with exit=143, killed by SIGTERM; after=\d+\nup\n$/)
        expect(text(await call('get_url', { port: 8000 }))).toMatch(/^http:\/\/127\.0\.0\.1:\d+\n/)
        expect(text(await call('snapshot', { name: `s-${Date.now()}` }))).toMatch(/^Saved snapshot/)
        expect([...called].sort()).toEqual([...client.tools].sort())
      } finally {
        await client.close()
      }
    },
    60_000,
  )

  it.each(clients)(
    '%s: shows progress, and a cancelled command is killed',
    async (_, connect) => {
      const client = await connect()
      try {
        const cancel = new AbortController()
        const mark = `4${Math.floor(Math.random() * 1e6)}`
        const progress = Promise.withResolvers<string | undefined>()
        const cancelled = client.call(
          'run_command',
          { cmd: `echo working; sleep ${mark}` },
          { signal: cancel.signal, onprogress: ({ message }) => progress.resolve(message) },
        )
        cancelled.catch(() => {})
        expect(await progress.promise).toMatch(/^running for \d+ s: working$/)
        cancel.abort()
        await expect(cancelled).rejects.toThrow()
        const gone = `for i in $(seq 100); do pgrep -f "[s]leep ${mark}" >/dev/null || exit 0; sleep 0.05; done; exit 1`
        expect(facts(await client.call('run_command', { cmd: gone }))).toEqual({ exitCode: 0 })
      } finally {
        await client.close()
      }
    },
    60_000,
  )

  it('HTTP needs the token, and a request that was meant for this machine', async () => {
    const post = (more: Record<string, string>) =>
      fetch(url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          ...more,
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }),
      }).then(({ status }) => status)
    expect(await post(headers)).toBe(200)
    expect(await post({})).toBe(401)
    expect(await post({ authorization: `Bearer ${'x'.repeat(43)}` })).toBe(401)
    expect(await post({ ...headers, origin: 'https://evil.example' })).toBe(403)
    expect(await post({ ...headers, origin: 'http://localhost:3000' })).toBe(200)
  })
})
