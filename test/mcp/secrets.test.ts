import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, readSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { brokerPlace } from '@sandkasten/mcp/broker'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { testDaemon } from '../../packages/cli/test/helper.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type Agent, connectAgent } from './agent.ts'
import { type McpPlace, mcpPlace } from './place.ts'

const missing = await isolationMissing()
const planted = 'planted-5b0c4f7a1d'

/** A sandbox at a provider with a key: the broker uses the key, and nothing else has it. */
describe.skipIf(missing)('secrets', () => {
  let place: McpPlace
  let daemon: Awaited<ReturnType<typeof testDaemon>>
  let agent: Agent
  const hidden: Record<string, string> = {}
  beforeAll(async () => {
    daemon = await testDaemon({ isolator: 'oci' })
    place = await mcpPlace(['--sandbox', 'remote'])
    const { SANDKASTEN_URL: url, SANDKASTEN_API_KEY: key } = daemon.env
    hidden['the provider’s key'] = key
    await place.ok(['setup', 'daemon', '--url', url, '--stdin'], { input: key })
    await place.ok(['create', 'remote', '--yes', '--provider', 'daemon', '--image', 'host'])
    agent = await connectAgent(place)
    expect((await agent.call('status')).text).toMatch(/name: remote\nprovider: daemon\nstatus: running/)
    const { tokens } = brokerPlace(path.join(place.env.SANDKASTEN_HOME!, 'registry'))
    hidden['the token'] = (await readFile(path.join(tokens, 'remote.token'), 'utf8')).trim()
  })
  afterAll(async () => {
    await agent?.[Symbol.asyncDispose]()
    await place?.close()
    await daemon?.close()
  })

  /** Where the sandbox has a text. The text reaches grep through a pipe, so the search does not find itself. */
  const found = async (text: string) => {
    const cmd = `exec 2>/dev/null; p=$(echo ${Buffer.from(text).toString('base64')} | base64 -d)
      grep -rlaF -f <(printf %s "$p") /workspace /tmp /home /root /run /var /etc /opt /srv
      for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do
        tr '\\0' '\\n' <$f | grep -qaF -f <(printf %s "$p") && echo $f
      done
      exit 0`
    const { text: output } = await agent.call('run_command', { cmd })
    return output.replace(/^exit=0\n?/, '')
  }

  it('the search finds what is there', async () => {
    await agent.call('write_file', { path: 'planted', content: planted })
    const { text } = await agent.call('start_process', { cmd: `PLANTED=${planted} exec sleep 1000` })
    expect(await found(planted)).toMatch(/^\/workspace\/planted\n\/proc\/\d+\/environ\n$/)
    await agent.call('stop_process', { execId: text.split(' ')[0] })
  })

  it('the sandbox has neither the provider’s key nor the token', async () => {
    for (const [what, text] of Object.entries(hidden)) expect(await found(text), what).toBe('')
    // Also in the processes that the sandbox’s user may not read, such as its first.
    const here = readlinkSync('/proc/self/ns/pid')
    const inSandboxes = readdirSync('/proc').filter(
      (pid) => /^\d+$/.test(pid) && readOr(() => readlinkSync(`/proc/${pid}/ns/pid`), here) !== here,
    )
    expect(inSandboxes).not.toEqual([])
    for (const pid of inSandboxes)
      for (const file of ['environ', 'cmdline'])
        for (const text of Object.values(hidden))
          expect(readOr(() => readFileSync(`/proc/${pid}/${file}`, 'utf8'), '')).not.toContain(text)
  })

  it('the agent’s side has neither in its environment or arguments, and no open file of the registry', async () => {
    const broker = (await place.brokerPid())!
    for (const pid of [agent.pid, broker])
      for (const file of ['environ', 'cmdline'])
        for (const [what, text] of Object.entries(hidden))
          expect(readFileSync(`/proc/${pid}/${file}`, 'utf8'), `${what} in ${file}`).not.toContain(text)
    const open = (pid: number) =>
      readdirSync(`/proc/${pid}/fd`).map((fd) => {
        return readOr(() => readlinkSync(`/proc/${pid}/fd/${fd}`), '')
      })
    expect(open(broker).filter((file) => file.endsWith('registry.db'))).not.toEqual([])
    expect(open(agent.pid).filter((file) => file.includes('/registry/'))).toEqual([])
  })

  it('the agent’s side has not the provider’s key in its memory', () => {
    expect(memoryHas(agent.pid, hidden['the token']!)).toBe(true)
    expect(memoryHas(agent.pid, hidden['the provider’s key']!)).toBe(false)
  })

  it('neither is in a file that others may read, or in the broker’s log', async () => {
    const { folder, log } = brokerPlace(path.join(place.env.SANDKASTEN_HOME!, 'registry'))
    for (const text of Object.values(hidden)) expect(await readFile(log, 'utf8')).not.toContain(text)
    const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    expect(files.filter((name) => name.endsWith('.token'))).toEqual(['tokens/remote.token'])
  })
})

/** Processes and their descriptors may end at any time. */
function readOr(read: () => string, otherwise: string): string {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** Whether a readable and writable part of a process’s memory contains the text. */
function memoryHas(pid: number, text: string): boolean {
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
      .split('\n')
      .some((line) => {
        const range = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line)
        if (!range) return false
        const [start, stop] = [Number.parseInt(range[1]!, 16), Number.parseInt(range[2]!, 16)]
        for (let at = start; at < stop; at += chunkBytes) {
          const chunk = Buffer.alloc(Math.min(chunkBytes, stop - at))
          try {
            readSync(memory, chunk, 0, chunk.byteLength, at)
          } catch {
            return false
          }
          if (chunk.includes(text)) return true
        }
        return false
      })
  } finally {
    closeSync(memory)
  }
}

const chunkBytes = 16 * 1024 * 1024
