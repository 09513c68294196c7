/**
 * A daemon on the world's host, with isolated sandboxes, and the vendors' SDKs. Reads requests as lines of JSON and
 * writes answers: `{ id, method, args }` and `{ id, result }` or `{ id, error }`. Ends with its input.
 */
import { globSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { ConnectionConfig, Sandbox as OpenSandbox } from '@alibaba-group/opensandbox'
import { type CreateSandboxFromSnapshotParams, Daytona } from '@daytona/sdk'
import { Sandbox as VercelSandbox } from '@vercel/sandbox'
import { E2B, type SandboxOpts } from 'e2b'
import { startTestDaemon } from '../../../packages/daemon/src/testing/daemon.ts'
import { ControlConnection } from '../../../packages/engine/src/egress/control.ts'

const [runFolder = ''] = process.argv.slice(2)
const listen = '127.0.0.1:0'
const daemon = await startTestDaemon(
  {
    isolator: 'oci',
    run_dir: runFolder,
    allowed_networks: ['none', 'open', 'policy'],
    preview_listen: listen,
    fronts: { e2b: { listen }, daytona: { listen }, vercel: { listen }, opensandbox: { listen } },
  },
  { ownHostLayers: true },
)
const { e2b: e2bUrl, daytona: daytonaUrl, vercel: vercelUrl, opensandbox: openUrl } = daemon.daemon.fronts
const e2b = new E2B({ apiKey: daemon.key, apiUrl: e2bUrl!, sandboxUrl: e2bUrl! })
const vercel = {
  token: daemon.key,
  teamId: 'team',
  projectId: 'project',
  fetch: ((url, init) =>
    fetch(String(url).replace('https://vercel.com/api', vercelUrl!), init)) as typeof fetch,
}

type E2bNetwork = NonNullable<SandboxOpts['network']>
type DaytonaNetwork = Pick<CreateSandboxFromSnapshotParams, 'networkAllowList' | 'domainAllowList'>
type VercelPolicy = NonNullable<NonNullable<Parameters<typeof VercelSandbox.create>[0]>['networkPolicy']>
type OpenPolicy = NonNullable<Parameters<typeof OpenSandbox.create>[0]['networkPolicy']>

/** Each runs a script in a new sandbox with this network, and removes the sandbox. */
const methods = {
  async e2b(network: E2bNetwork, script: string) {
    const box = await e2b.Sandbox.create({ network })
    try {
      return (await box.commands.run(script, { timeoutMs: 60_000 })).stdout
    } finally {
      await box.kill()
    }
  },
  async daytona(network: DaytonaNetwork, script: string) {
    const daytona = new Daytona({ apiKey: daemon.key, apiUrl: `${daytonaUrl}/api`, target: 'us' })
    const sandbox = await daytona.create(network)
    try {
      return (await sandbox.process.executeCommand(script)).result ?? ''
    } finally {
      await sandbox.delete()
      await daytona[Symbol.asyncDispose]()
    }
  },
  async vercel(networkPolicy: VercelPolicy, script: string) {
    const sandbox = await VercelSandbox.create({ ...vercel, networkPolicy })
    try {
      const done = await sandbox.runCommand('sh', ['-c', script])
      return await done.stdout()
    } finally {
      await sandbox.delete()
    }
  },
  async opensandbox(networkPolicy: OpenPolicy, script: string) {
    const connectionConfig = new ConnectionConfig({ domain: openUrl!, apiKey: daemon.key })
    const image = 'host'
    const sandbox = await OpenSandbox.create({
      connectionConfig,
      image,
      skipHealthCheck: true,
      networkPolicy,
    })
    try {
      const { logs } = await sandbox.commands.run(script)
      return logs.stdout.map(({ text }) => text).join('\n')
    } finally {
      await sandbox.kill()
      await sandbox.close()
    }
  },
}
export type FrontMethods = typeof methods

process.stdout.write(`${JSON.stringify({ ready: true })}\n`)
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, args } = JSON.parse(line) as { id: number; method: keyof FrontMethods; args: never }
  const answer = await (methods[method] as (...args: unknown[]) => Promise<string>)(
    ...(args as unknown[]),
  ).then(
    (result) => ({ id, result }),
    (error) => ({ id, error: { message: String(error?.stack ?? error), code: error?.code } }),
  )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
await daemon.stop()
// Otherwise it goes on for a minute.
for (const socket of globSync(`${runFolder}/**/control.sock`)) {
  const gateway = await ControlConnection.open(socket)
  const pid = (await gateway?.request('hello', { version: 1 }))?.pid
  if (typeof pid === 'number') process.kill(pid, 'SIGKILL')
}
rmSync(runFolder, { recursive: true, force: true })
process.exit(0)
