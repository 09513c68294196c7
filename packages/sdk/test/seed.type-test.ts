/**
 * Code as users of the Sandbox SDK seed would write it. It must compile against the contract. This file is never run: `tsc`
 * is the test. The user's own parts (database, opencode client) are declared.
 */

import type {
  CommandResult,
  CreateSandboxOpts,
  SandboxCore,
  SandboxError,
  SandboxHandle,
  SandboxInfo,
  SandboxProvider,
  SandboxStatus,
  SharedCapabilities,
} from '@sandkasten/sdk'
import { supports } from '@sandkasten/sdk'
import { autoDetectProvider } from '@sandkasten/sdk/auto'
import { LocalProvider } from '@sandkasten/sdk/local'
import { uploadProject } from '@sandkasten/sdk/recipes'

declare function getProviderForChannel(channelId: string): Promise<SandboxProvider>
declare function bootstrapOpencode(
  handle: SandboxHandle,
  opts: { envVars: Record<string, string>; cwd?: string },
): Promise<{ url: string; port: number }>
declare const database: {
  sandboxes: { create(row: object): Promise<void>; update(row: object): Promise<void> }
}

/** “How kimaki uses this”: the full flow. */
export async function sandboxCommand(channelId: string, projectDir: string): Promise<string> {
  const provider = await getProviderForChannel(channelId)
  const handle = await provider.create({
    ports: [7777],
    runtime: 'node24',
    envVars: { KIMAKI_DB_URL: 'http://127.0.0.1:1', KIMAKI_LOCK_PORT: String(2) },
  })
  await uploadProject(handle, { projectDir })
  const { url } = await bootstrapOpencode(handle, { envVars: {}, cwd: '/workspace' })
  await database.sandboxes.create({
    provider: provider.name,
    provider_sandbox_id: handle.sandboxId,
    status: 'running',
    base_url: url,
  })
  return url
}

/** Both heartbeats: the seed's own, and one that checks the sandbox's abilities. */
export function heartbeats(provider: SandboxProvider, handle: SandboxHandle): NodeJS.Timeout[] {
  const byName = setInterval(
    async () => {
      if (provider.name === 'vercel') await handle.extendTimeout(5 * 60 * 1000)
    },
    3 * 60 * 1000,
  )
  const byAbility = setInterval(
    async () => {
      if (supports(handle, 'lifetime')) await handle.extendTimeout(5 * 60 * 1000)
    },
    3 * 60 * 1000,
  )
  return [byName, byAbility]
}

export async function sessionEnd(handle: SandboxHandle, heartbeat: NodeJS.Timeout): Promise<void> {
  clearInterval(heartbeat)
  const { snapshotId } = await handle.snapshot()
  await database.sandboxes.update({ data: { status: 'stopped', snapshot_id: snapshotId } })
}

/** The seed's shapes. */
export async function shapes(handle: SandboxHandle, provider: SandboxProvider): Promise<void> {
  const status: SandboxStatus = await handle.status()
  const check: CommandResult = await handle.runCommand({ cmd: 'which', args: ['opencode'] })
  const code: number = check.exitCode
  const text: string = check.stdout + check.stderr
  await handle.runCommand({
    cmd: 'sh',
    args: ['-c', 'exec opencode serve'],
    detached: true,
    cwd: '/workspace',
    env: { A: 'b' },
  })
  const url: string = await handle.getUrl(7777)
  await handle.writeFile('/tmp/x', Buffer.from('x'))
  const content: string = (await handle.readFile('/tmp/x')).toString('utf8')
  await handle.uploadFile('a.tar.gz', '/tmp/a.tar.gz')
  await handle.stop()
  await handle.destroy()
  const opts: CreateSandboxOpts = {
    repo: 'https://example.com/a.git',
    gitToken: 't',
    snapshotId: 's',
    runtime: 'r',
    ports: [1],
    resources: { vcpus: 1, memoryMb: 1 },
    timeout: 1,
    envVars: {},
    label: 'l',
  }
  const again: SandboxHandle = await provider.get(handle.sandboxId)
  const infos: SandboxInfo[] = await provider.list()
  const { sandboxId, createdAt, label }: { sandboxId: string; createdAt?: Date; label?: string } = infos[0]!
  const healthy: boolean = await provider.healthCheck()
  const detected: SandboxProvider | null = autoDetectProvider()
  void [status, code, text, url, content, opts, again, sandboxId, createdAt, label, healthy, detected]
}

/** Abilities as types: with a known provider, using an absent ability does not compile. */
export async function abilities(): Promise<void> {
  const sandbox = await new LocalProvider().create()
  await sandbox.snapshot()
  await sandbox.files.watch('.')
  const process = await sandbox.spawn({ cmd: 'cat', stdin: 'pipe' })
  await process.writeStdin('x')
  // @ts-expect-error a local sandbox cannot be paused
  await sandbox.pause()
  if (supports(sandbox, 'pause')) await sandbox.pause()

  const bare: SandboxCore = sandbox
  // @ts-expect-error the abilities of this sandbox are unknown
  await bare.snapshot()
  if (supports(bare, 'snapshot')) await bare.snapshot()
  if (supports(bare, 'watch')) await bare.files.watch('.')

  // @ts-expect-error an agent's view cannot destroy the sandbox
  await sandbox.restricted().destroy()
  // @ts-expect-error nor open a port
  await sandbox.restricted().getUrl(80)
  // @ts-expect-error nor read files of this machine
  await sandbox.restricted().uploadFile('/etc/passwd', 'x')
  await sandbox.restricted().openShell()

  // A group of providers has the abilities that all of them share.
  type Shared = SharedCapabilities<
    { snapshot: 'native'; fork: 'native' },
    { snapshot: 'emulated'; pause: 'native' }
  >
  const group = sandbox as unknown as SandboxHandle<Shared>
  await group.snapshot()
  // @ts-expect-error only one of them can fork
  await group.fork()

  // @ts-expect-error results and errors are different things
  const wrong: SandboxError = await sandbox.runCommand({ cmd: 'true' })
  // @ts-expect-error a line for a shell is not a command
  await sandbox.runCommand('ls -l')
  void wrong
  await using disposed = sandbox
  void disposed
}
