import { setTimeout as sleep } from 'node:timers/promises'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { type Bridge, type BridgeAddress, type BridgeHome, openBridge } from '@sandkasten/threads'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { steps } from '../../packages/opencode/src/testing/model-server.ts'
import { type AgentSurroundings, agentSurroundings, ask, shown } from './agent-surroundings.ts'

/** What agents have asked for, line by line. */
function recordingHome(): BridgeHome & { readonly calls: string[]; replies: Array<() => Promise<string>> } {
  const calls: string[] = []
  const home = {
    calls,
    replies: [] as Array<() => Promise<string>>,
    async sendFile(threadId: string, file: { name: string; bytes: Uint8Array }, note: string | undefined) {
      calls.push(`${threadId} file ${file.name} ${Buffer.from(file.bytes).toString()} ${note}`)
    },
    ask(threadId: string, { text, choices }: { text: string; choices: readonly string[] }) {
      calls.push(`${threadId} ask ${text} ${choices.join('/')}`)
      return home.replies.shift()?.() ?? new Promise<string>(() => {})
    },
    async setTitle(threadId: string, title: string) {
      calls.push(`${threadId} title ${title}`)
    },
    async schedule(threadId: string, { when, text }: { when: string; text: string }) {
      if (when === 'never') throw new SandboxError('invalid_argument', 'This time is not understood.')
      calls.push(`${threadId} schedule ${when} ${text}`)
      return { id: 's1', when, text }
    },
    async cancelSchedule(threadId: string, id: string) {
      calls.push(`${threadId} cancel ${id}`)
      return id === 's1'
    },
    async listSchedules() {
      return [{ id: 's1', when: 'every day', text: 'look' }]
    },
  }
  return home
}

const missing = await isolationMissing()

describe.skipIf(missing)(`what an agent may ask of its thread${missing ?? ''}`, () => {
  let all: AgentSurroundings
  let handle: SandboxHandle
  let home: ReturnType<typeof recordingHome>
  let bridge: Bridge
  const problems: string[] = []
  beforeAll(async () => {
    all = await agentSurroundings()
    handle = all.sandbox.handle
    home = recordingHome()
    bridge = await openBridge({ home, onProblem: (threadId, text) => problems.push(`${threadId} ${text}`) })
  }, 300_000)
  afterAll(async () => {
    await bridge?.[Symbol.asyncDispose]()
    await all?.close()
  }, 60_000)

  const here = () => bridge.atHome('t1', (work, signal) => work(handle, '/workspace', signal))
  async function client(address: BridgeAddress): Promise<Client> {
    const headers = { authorization: `Bearer ${address.token}` }
    const made = new Client({ name: 'test', version: '1.0.0' })
    const url = new URL(address.url)
    await made.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
    return made
  }
  const textOf = async (made: Client, name: string, args: object) => {
    const result = await made.callTool({ name, arguments: { ...args } })
    return (result.content as Array<{ text: string }>).map(({ text }) => text).join('\n')
  }

  it('is six tools, which reach only the thread of the token', async () => {
    await using address = await here()
    const made = await client(address)
    const { tools } = await made.listTools()
    expect(tools.map(({ name }) => name)).toEqual([
      'send_file',
      'ask_user',
      'set_title',
      'schedule',
      'cancel_schedule',
      'list_schedules',
    ])
    await handle.writeFile('/workspace/report.txt', 'fine')
    home.replies.push(async () => 'blue')
    expect(await textOf(made, 'send_file', { path: 'report.txt', note: 'Look' })).toContain('Sent report.txt')
    expect(await textOf(made, 'ask_user', { question: 'Color?', choices: ['red', 'blue'] })).toBe(
      'The user replied: blue',
    )
    expect(await textOf(made, 'set_title', { title: 'New' })).toContain('has this title')
    expect(await textOf(made, 'schedule', { when: 'in 5 minutes', text: 'go' })).toContain('s1')
    expect(await textOf(made, 'schedule', { when: 'never', text: 'go' })).toContain('not understood')
    expect(await textOf(made, 'list_schedules', {})).toBe('s1: every day: look')
    expect(await textOf(made, 'cancel_schedule', { id: 's2' })).toContain('no scheduled message')
    expect(home.calls.splice(0)).toEqual([
      't1 file report.txt fine Look',
      't1 ask Color? red/blue',
      't1 title New',
      't1 schedule in 5 minutes go',
      't1 cancel s2',
    ])
    await made.close()
  }, 60_000)

  it('reads files of the sandbox only, and none that are too large or no files', async () => {
    await using address = await here()
    const made = await client(address)
    const line = 'truncate -s 9M large; ln -sf /proc/self/environ link; mkfifo -m 600 pipe; echo ok'
    await handle.runCommand({ cmd: 'sh', args: ['-c', line] })
    for (const path of ['large', 'pipe', '/dev/zero', 'missing', '../../../nothing'])
      expect(await textOf(made, 'send_file', { path })).toMatch(/^Error: /)
    expect(home.calls.splice(0)).toEqual([])
    await made.close()
  }, 60_000)

  it('ends with its token: by a new one, by the end of its address, and when the thread is revoked', async () => {
    const status = async ({ url, token }: BridgeAddress) => {
      const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
      return (await fetch(url, { method: 'POST', headers, body: '{}' })).status
    }
    const first = await here()
    expect(await status(first)).not.toBe(401)
    const second = await here()
    expect(await status(first)).toBe(401)
    await second[Symbol.asyncDispose]()
    expect(await status(second)).toBe(401)
    const third = await here()
    bridge.revoke('t1')
    expect(await status(third)).toBe(401)
    expect(await status({ ...third, token: '' })).toBe(401)
  })

  it('works from inside a sandbox without a network, and again after its relay was killed', async () => {
    await using agents = all.agents({ bridge })
    await using agent = await agents.open(all.request('t2', { mode: 'inside' }))
    await handle.writeFile('/workspace/picture.txt', 'a picture')
    home.replies.push(async () => 'go on')
    all.model.script = steps(
      { tool: 'thread_send_file', args: { path: 'picture.txt' } },
      { tool: 'thread_ask_user', args: { question: 'More?' } },
      { text: 'Sent.' },
    )
    const { last } = await ask(agent, 'send it')
    expect(shown(last).at(-1)).toBe('Sent.')
    expect(home.calls.splice(0)).toEqual(['t2 file picture.txt a picture undefined', 't2 ask More? '])
    expect(all.model.requests.at(-1)!.lastResult).toContain('go on')
    const relay =
      'for p in /proc/[0-9]*; do grep -qa process.stdin.setEncoding $p/cmdline && basename $p; done'
    const { stdout } = await handle.runCommand({ cmd: 'sh', args: ['-c', relay] })
    const pids = stdout.trim().split('\n')
    await handle.runCommand({ cmd: 'kill', args: ['-9', ...pids] })
    await sleep(4_000)
    all.model.script = steps({ tool: 'thread_set_title', args: { title: 'After' } })
    await ask(agent, 'name it')
    expect(home.calls.splice(0)).toEqual(['t2 title After'])
    // The token is in no argument of a program, and in no file of the sandbox's home.
    const found = `grep -rlE "Bearer [A-Za-z0-9_-]{43}" $HOME /workspace 2>/dev/null | grep -v opencode.db; true`
    expect((await handle.runCommand({ cmd: 'sh', args: ['-c', found] })).stdout).toBe('')
  }, 300_000)

  it('tells an agent that waits for a reply when the bot ends', async () => {
    await using agents = all.agents({ bridge })
    const agent = await agents.open(all.request('t3', { mode: 'inside' }))
    all.model.script = steps(
      { tool: 'thread_ask_user', args: { question: 'Hello?' } },
      { text: 'No answer.' },
    )
    let isClosed = false
    const { last } = await ask(agent, 'ask', async () => {
      if (isClosed || home.calls.length === 0) return
      isClosed = true
      await agent[Symbol.asyncDispose]()
    })
    expect(shown(last).at(-1)).toBe('No answer.')
    expect(all.model.requests.at(-1)!.lastResult).toContain('stopped or restarted')
    home.calls.length = 0
  }, 300_000)

  it('lives on when a program in the sandbox floods, sends garbage, or opens 1,000 requests', async () => {
    await using address = await bridge.inSandbox('t4', handle, '/workspace')
    const flood = `
      const http = require('node:http')
      let open = 1000, statuses = {}
      const done = (status) => { statuses[status] = (statuses[status] ?? 0) + 1; if (--open === 0) { console.log(JSON.stringify(statuses)); process.exit(0) } }
      for (let i = 0; i < 1000; i++) {
        const request = http.request('${address.url}', { method: 'POST', agent: false }, (response) => { response.resume(); response.on('end', () => done(response.statusCode)) })
        request.on('error', () => done('error'))
        request.end(i % 2 ? 'garbage' : 'x'.repeat(300000))
      }`
    const run = `for f in "$HOME/.local/bin/opencode" /opt/sandkasten/opencode; do [ -x "$f" ] && BUN_BE_BUN=1 exec "$f" -e "$1"; done; exec node -e "$1"`
    const began = Date.now()
    let longest = 0
    let last = Date.now()
    const watch = setInterval(() => {
      longest = Math.max(longest, Date.now() - last)
      last = Date.now()
    }, 20)
    const result = await handle.runCommand({ cmd: 'sh', args: ['-c', run, 'x', flood], timeoutMs: 60_000 })
    clearInterval(watch)
    expect(result.exitCode).toBe(0)
    expect(Date.now() - began).toBeLessThan(60_000)
    expect(longest).toBeLessThan(5_000)
    const alive = `
      fetch('${address.url}', { method: 'POST', body: '{}', headers: { authorization: 'Bearer wrong' } }).then((r) => console.log(r.status))`
    const { stdout } = await handle.runCommand({ cmd: 'sh', args: ['-c', run, 'x', alive] })
    expect(stdout.trim()).toBe('401')
  }, 120_000)
})
