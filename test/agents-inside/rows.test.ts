import { networkInterfaces } from 'node:os'
import path from 'node:path'
import type { OpencodeClient } from '@opencode-ai/sdk/v2'
import {
  type AgentServer,
  type BootstrapOpencodeOptions,
  bootstrapOpencode,
  modelNetwork,
  modelUrl,
} from '@sandkasten/opencode'
import { type CreateSandboxOpts, type SandboxHandle, type SandboxProvider, supports } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kindsAt } from '../../packages/cli/src/sandbox/open.ts'
import { type Place, temporaryPlace } from '../../packages/cli/test/sandbox/place.ts'
import { freePort } from '../../packages/opencode/src/testing/free-port.ts'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { rows } from '../sandboxes/rows.ts'

/**
 * The same story with every provider: the real opencode works in a sandbox, and its session continues after a stop. Only
 * the way to the model differs. The model is scripted.
 */
describe.each(rows.map((row) => [row.provider, row] as const))('opencode at %s', (name, row) => {
  let place: Place
  let service: Awaited<ReturnType<typeof row.start>>
  let provider: SandboxProvider
  let model: ModelServer
  let handle: SandboxHandle
  let missing: string | undefined
  const way = waysToTheModel[name] ?? viaAddress

  beforeAll(async () => {
    missing = (await row.missing()) ?? way.missing?.()
    if (missing !== undefined) return
    model = await startModelServer(steps(), way.host?.())
    service = await row.start({
      allowed_networks: ['none', 'policy'],
      egress: { services: { model: { host: '127.0.0.1', port: model.port } }, addresses: outward() },
      defaults: { memory_mb: 1536, cpu_limit: 2, pids_limit: 1024 },
    })
    place = await temporaryPlace()
    process.env.SANDKASTEN_HOME = place.env.SANDKASTEN_HOME
    const kinds = kindsAt({ folder: path.join(place.home, 'data/engine') })
    provider = kinds.find((one) => one.provider === name)!.make(service.settings ?? {})
    handle = await provider.create(way.create(model, provider))
  }, 120_000)
  afterAll(async () => {
    await handle?.destroy()
    await (provider as Partial<AsyncDisposable>)?.[Symbol.asyncDispose]?.()
    await service?.stop()
    await model?.close()
    await place?.close()
    delete process.env.SANDKASTEN_HOME
  }, 120_000)

  it('bootstrap, prompt, events, diff, and the same session after a stop', async ({ skip }) => {
    if (missing !== undefined) skip(missing)
    const cwd = `${handle.workdir}/project`
    const sh = async (line: string) => {
      const { exitCode, stdout, stderr } = await handle.runCommand({ cmd: 'sh', args: ['-c', line], cwd })
      expect(exitCode, stderr).toBe(0)
      return stdout
    }
    await handle.files.mkdir(cwd)
    const commit = 'git add . && git -c user.name=t -c user.email=t@example.com commit -qm first'
    await sh(`git init -q . && echo before > file.txt && ${commit}`)

    const options: BootstrapOpencodeOptions = {
      cwd,
      port: await freePort(),
      config: modelConfig(way.url(model)),
      // Where a sandbox has the home of an account of this machine, the test keeps out of it.
      envVars: way.home ? { HOME: `${handle.workdir}/home` } : {},
    }
    if (way.home) await handle.files.mkdir(`${handle.workdir}/home`)
    const [server, twin] = await Promise.all([
      bootstrapOpencode(handle, options),
      bootstrapOpencode(handle, options),
    ])
    expect(server).toMatchObject({ agent: 'opencode', version: '1.18.33', reused: false })
    expect(twin).toMatchObject({ reused: true, password: server.password })
    expect(server.password).toMatch(/^[\w-]{32}$/)
    const health = `${server.url}/global/health`
    const { authorization: _, ...withoutPassword } = server.headers
    expect((await fetch(health, { headers: withoutPassword })).status).toBe(401)
    expect((await fetch(health, { headers: server.headers })).status).toBe(200)

    const client: OpencodeClient = await server.client()
    const stop = new AbortController()
    const { stream } = await client.event.subscribe({}, { signal: stop.signal })
    const events: string[] = []
    const idle = (async () => {
      for await (const { type } of stream) {
        events.push(type)
        if (type === 'session.idle') return
      }
    })()
    const session = (await client.session.create({})).data!
    expect(session.directory).toBe(server.directory)
    const answer = 'echo "$(pwd)" made > made.txt'
    model.script = steps(
      { tool: 'bash', args: { command: answer, description: 'Makes a file' } },
      { tool: 'read', args: { filePath: `${server.directory}/file.txt` } },
      {
        tool: 'edit',
        args: { filePath: `${server.directory}/file.txt`, oldString: 'before', newString: 'after' },
      },
    )
    const prompt = (text: string) =>
      client.session.prompt({ sessionID: session.id, parts: [{ type: 'text', text }] })
    const first = await prompt('change it')
    expect(first.error).toBeUndefined()
    expect(first.data!.parts).toContainEqual(expect.objectContaining({ type: 'text', text: 'done' }))
    await idle
    stop.abort()
    expect(events).toEqual(
      expect.arrayContaining(['server.connected', 'session.created', 'message.part.updated']),
    )
    expect(await sh('cat file.txt made.txt')).toBe(`after\n${server.directory} made\n`)
    const diff = (await client.vcs.diff({ mode: 'git' })).data!
    expect(diff.map(({ file, additions }) => `${file} ${additions}`).sort()).toEqual([
      'file.txt 1',
      'made.txt 1',
    ])

    await stopAndStart(handle)
    const second = await bootstrapOpencode(handle, { ...options, password: server.password })
    const next: OpencodeClient = await second.client()
    expect((await next.session.list()).data!.map(({ id }) => id)).toEqual([session.id])
    model.script = ({ messages }) => ({
      text: `${messages.filter(({ role }) => role === 'user').length} prompts`,
    })
    const more = await next.session.prompt({
      sessionID: session.id,
      parts: [{ type: 'text', text: 'go on' }],
    })
    expect(more.data?.parts).toContainEqual(expect.objectContaining({ text: '2 prompts' }))
    await second.stop()
    expect(await answers(second)).toBe(false)
  }, 180_000)
})

interface WayToTheModel {
  missing?(): string | undefined
  /** Where the model listens. Default: loopback. */
  host?(): string
  create(model: ModelServer, provider: SandboxProvider): CreateSandboxOpts
  /** The model as the sandbox sees it. */
  url(model: ModelServer): string
  /** The sandbox has a home of this machine. */
  home?: boolean
}

/** The machine’s own address: vendors’ policies have no services. */
const viaAddress: WayToTheModel = {
  missing: () => (outward().length > 0 ? undefined : 'needs an address that is not loopback'),
  host: () => outward()[0]!,
  create: () => ({ network: { allow: [outward()[0]!] } }),
  url: ({ url }) => url,
}

/** A service of the network policy: the sandbox has no other network. */
const viaService: WayToTheModel = {
  create: ({ url }) => ({ network: modelNetwork({ url }), resources: { memoryMb: 1536, vcpus: 2 } }),
  url: ({ url }) => modelUrl({ url }),
}

/** The same, with the address in the configuration of the daemon. */
const viaDaemon: WayToTheModel = {
  create: () => ({ network: modelNetwork({ url: serviceUrl }) }),
  url: () => serviceUrl,
}
const serviceUrl = 'http://model.sandkasten.internal/v1'

/** The network of this machine. */
const direct: WayToTheModel = { create: () => ({}), url: ({ url }) => url, home: true }

const waysToTheModel: Readonly<Record<string, WayToTheModel>> = {
  engine: viaService,
  daemon: viaDaemon,
  ssh: direct,
  local: direct,
}

function outward(): string[] {
  const all = Object.values(networkInterfaces()).flat()
  return all.flatMap((one) => (one?.family === 'IPv4' && !one.internal ? [one.address] : [])).slice(0, 1)
}

async function answers({ url, headers }: AgentServer): Promise<boolean> {
  const request = fetch(`${url}/global/health`, { headers, signal: AbortSignal.timeout(5000) })
  return request.then(
    ({ ok }) => ok,
    () => false,
  )
}

/** The strongest interruption that the provider has. */
async function stopAndStart(handle: SandboxHandle): Promise<void> {
  if (supports(handle, 'stop')) {
    await handle.stop()
    await handle.start()
  } else if (supports(handle, 'pause')) {
    await handle.pause()
    await handle.resume()
  } else if (supports(handle, 'reattach')) {
    for (const { execId, running } of await handle.listProcesses())
      if (running) await (await handle.getProcess(execId)).kill('SIGKILL')
  }
}
