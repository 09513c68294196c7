import { randomBytes } from 'node:crypto'
import { globSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { OpencodeClient } from '@opencode-ai/sdk/v2'
import { bootstrapOpencode, modelNetwork, runAgent } from '@sandkasten/opencode'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { spawnDaemon } from '../../packages/daemon/src/testing/spawn-daemon.ts'
import { ControlConnection } from '../../packages/engine/src/egress/control.ts'
import { removeGateway } from '../../packages/engine/src/provider/test-helper.ts'
import { modelConfig, startModelServer } from '../../packages/opencode/src/testing/model-server.ts'
import { surroundings } from './surroundings.ts'

const missing = await isolationMissing()

/** What carries a prompt, outside of the sandbox, is killed in the middle of it. */
describe.skipIf(missing)(`kills around the sandbox${missing ? ` (${missing})` : ''}`, () => {
  it('the gateway, which carries the model: opencode asks again, and the prompt ends well', async () => {
    await using stack = new AsyncDisposableStack()
    const runFolder = `/run/sk-agents-${randomBytes(4).toString('hex')}`
    stack.defer(() => rmSync(runFolder, { recursive: true, force: true }))
    const all = await surroundings({ oci: { runFolder } })
    stack.defer(async () => {
      await all.close()
      await removeGateway(all.root, runFolder)
    })
    const handle = await all.create()
    const server = await bootstrapOpencode(handle, all.options)
    all.model.script = () => ({ hang: true })
    const asked = all.model.next()
    const run = runAgent(handle, 'opencode', 'go', { server, timeoutMs: 150_000 })
    run.catch(() => {})
    await asked
    all.model.script = () => ({ text: 'asked again' })
    const pid = await gatewayPid(runFolder)
    process.kill(pid, 'SIGKILL')
    expect(await run).toMatchObject({ text: 'asked again', error: undefined })
    expect(await gatewayPid(runFolder)).not.toBe(pid)
  }, 240_000)

  it('the daemon, which carries the port: the prompt works on inside, and the next daemon finds it', async () => {
    await using stack = new AsyncDisposableStack()
    const folder = mkdtempSync(path.join(tmpdir(), 'sk-agents-daemon-'))
    stack.defer(() => rmSync(folder, { recursive: true, force: true }))
    const model = stack.use(await startModelServer())
    const apiKey = 'sk-test-0123456789abcdef'
    const config = {
      listen: '127.0.0.1:0',
      preview_listen: '127.0.0.1:0',
      data_dir: folder,
      isolator: 'oci',
      api_key: apiKey,
      log_level: 'silent',
      allowed_networks: ['none', 'policy'],
      egress: { services: { model: { host: '127.0.0.1', port: model.port } } },
      defaults: { memory_mb: 1536, cpu_limit: 2, pids_limit: 1024 },
    }
    const first = await spawnDaemon(config)
    stack.defer(async () => void (await first.end('SIGKILL')))
    const url = 'http://model.sandkasten.internal/v1'
    const handle = await new DaemonProvider({ url: first.url, apiKey }).create({
      network: modelNetwork({ url }),
    })
    await handle.runCommand({ cmd: 'git', args: ['init', '--quiet'] })
    const options = { config: modelConfig(url) }
    const server = await bootstrapOpencode(handle, options)
    model.script = () => ({ hang: true })
    const asked = model.next()
    const sessions: string[] = []
    const run = runAgent(handle, 'opencode', 'the first prompt', {
      server,
      timeoutMs: 150_000,
      onEvent: (event) => {
        if (event.type === 'session') sessions.push(event.sessionId)
      },
    })
    run.catch(() => {})
    await asked
    await first.end('SIGKILL')
    await expect(run).rejects.toMatchObject({ code: 'connection_lost', retryable: false })

    const second = await spawnDaemon(config)
    stack.defer(async () => void (await second.end('SIGTERM')))
    const same = await new DaemonProvider({ url: second.url, apiKey }).get(handle.id)
    stack.defer(async () => void (await same.destroy()))
    const again = await bootstrapOpencode(same, { ...options, password: server.password })
    expect(again.reused).toBe(true)
    const [sessionId] = sessions
    const client: OpencodeClient = await again.client()
    expect((await client.session.status()).data).toMatchObject({ [sessionId!]: { type: 'busy' } })
    await client.session.abort({ sessionID: sessionId! })
    model.script = ({ messages }) => ({
      text: JSON.stringify(messages).includes('the first prompt') ? 'remembered' : 'forgotten',
    })
    const more = await runAgent(same, 'opencode', 'go on', { server: again, sessionId })
    expect(more.text).toBe('remembered')
  }, 240_000)
})

/** Resolves once a gateway listens: a killed one is replaced. */
async function gatewayPid(runFolder: string): Promise<number> {
  for (;;) {
    for (const socket of globSync(`${runFolder}/**/control.sock`)) {
      const gateway = await ControlConnection.open(socket)
      const hello = await gateway?.request('hello', { version: 1 })
      gateway?.close()
      if (typeof hello?.pid === 'number') return hello.pid
    }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
