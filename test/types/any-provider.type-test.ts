/**
 * One type holds every provider and every handle, and a concrete provider keeps its precise type. Never run: `tsc` is
 * the test.
 */
import { EngineProvider } from '@sandkasten/engine'
import {
  type AllCapabilities,
  type Capabilities,
  failover,
  type Network,
  type ProcessHandle,
  type RestrictedSandbox,
  type SandboxCore,
  type SandboxFiles,
  type SandboxHandle,
  type SandboxProvider,
  secret,
  supports,
  withRetry,
} from '@sandkasten/sdk'
import { DaemonProvider } from '@sandkasten/sdk/daemon'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { HopxProvider } from '@sandkasten/sdk/hopx'
import { LocalProvider } from '@sandkasten/sdk/local'
import { MemoryProvider } from '@sandkasten/sdk/memory'
import { DriverProvider, type ProviderDriver } from '@sandkasten/sdk/provider'
import { SpritesProvider } from '@sandkasten/sdk/sprites'
import { SshProvider } from '@sandkasten/sdk/ssh'
import { VercelProvider } from '@sandkasten/sdk/vercel'

const daemon = new DaemonProvider()
const daytona = new DaytonaProvider({ apiKey: 'k' })
const e2b = new E2BProvider()
const engine = new EngineProvider()
const hopx = new HopxProvider({ apiKey: 'k' })
const local = new LocalProvider()
const memory = new MemoryProvider()
const sprites = new SpritesProvider()
const ssh = new SshProvider({ host: 'h' })
const vercel = new VercelProvider()
const retried = withRetry(daytona)
const group = failover(memory, local, { acceptNoIsolation: true })
const groupOfGroups = failover(withRetry(group), e2b, { acceptNoIsolation: true })

/** Annotations, containers, parameters and bounds, for each provider. */
export const annotated: { readonly [name: string]: SandboxProvider } = {
  daemon,
  daytona,
  e2b,
  engine,
  local,
  memory,
  ssh,
  vercel,
  sprites,
  retried,
  group,
  groupOfGroups,
}
export const list: SandboxProvider[] = [
  daemon,
  daytona,
  e2b,
  engine,
  hopx,
  local,
  memory,
  sprites,
  ssh,
  vercel,
  group,
]
export const byName = new Map<string, SandboxProvider>([
  ['daemon', daemon],
  ['daytona', daytona],
])
byName.set('e2b', e2b).set('engine', engine).set('local', local).set('memory', memory)
byName
  .set('ssh', ssh)
  .set('vercel', vercel)
  .set('sprites', sprites)
  .set('retried', retried)
  .set('group', groupOfGroups)
export let chosen: SandboxProvider | null = null
chosen = process.env.CI ? daytona : process.env.HOME ? vercel : null

declare function bounded<P extends SandboxProvider>(provider: P): P
export const precise: [DaytonaProvider, LocalProvider, EngineProvider] = [
  bounded(daytona),
  bounded(local),
  bounded(engine),
]
void [bounded(daemon), bounded(e2b), bounded(memory), bounded(ssh), bounded(vercel), bounded(group)]

declare function work(handle: SandboxHandle): Promise<void>
declare function inspect(files: SandboxFiles, process: ProcessHandle, view: RestrictedSandbox): void
declare function careful(handle: SandboxCore): void

/** Each handle, and what it returns. */
export async function handles(): Promise<SandboxHandle[]> {
  const all = [
    await daemon.create(),
    await daytona.create(),
    await e2b.get('x'),
    await engine.getOrCreate({ name: 'x' }),
    await local.create(),
    await memory.create(),
    await ssh.create(),
    await vercel.create(),
    await retried.create(),
    await group.create(),
    await groupOfGroups.create(),
  ] as const
  await work(all[0])
  await work(all[1])
  await work(all[2])
  await work(all[3])
  await work(all[4])
  await work(all[5])
  await work(all[6])
  await work(all[7])
  await work(all[8])
  await work(all[9])
  await work(all[10])
  for (const handle of all) {
    inspect(handle.files, await handle.spawn({ cmd: 'true' }), handle.restricted())
    careful(handle)
  }
  const forks: Array<SandboxHandle | Error> = await all[0].fork()
  const found: ProcessHandle = await all[4].getProcess('x')
  void [forks, found]
  return [...all]
}

/** The general type: every method compiles, as in the seeds, and `supports` narrows both branches. */
export async function general(provider: SandboxProvider): Promise<void> {
  const handle: SandboxHandle = await provider.getOrCreate({ name: 'x', onCreate: work })
  await handle.snapshot()
  await provider.listSnapshots()
  // @ts-expect-error the level is unknown until run time
  const level: string = handle.capabilities.snapshot
  if (supports(handle, 'snapshot')) {
    const known: string = handle.capabilities.snapshot
    const { snapshotId } = await handle.snapshot()
    void [known, snapshotId]
  } else {
    // The handle is still a handle here.
    await work(handle)
  }
  if (!supports(provider, 'snapshot')) await provider.list()
  const view = handle.restricted()
  if (supports(view, 'shell')) await view.openShell()
  // @ts-expect-error `restricted()` removes it at run time, too
  await view.destroy()
  void level
}

/** Without `supports`, `SandboxCore` has no ability. */
export async function strict(handle: SandboxCore): Promise<void> {
  // @ts-expect-error unknown
  await handle.snapshot()
  // @ts-expect-error unknown
  await handle.files.watch('.')
  // @ts-expect-error unknown
  await (await handle.spawn({ cmd: 'cat' })).writeStdin('x')
  if (supports(handle, 'snapshot')) await handle.snapshot()
  if (supports(handle, 'watch')) await handle.files.watch('.')
}

/** A concrete provider keeps its precise type. */
export async function absent(): Promise<void> {
  const [bare, remote, box] = [await local.create(), await vercel.create(), await e2b.create()]
  // @ts-expect-error a local sandbox cannot be paused
  await bare.pause()
  if (supports(bare, 'pause')) await bare.pause()
  else await bare.stop()
  // @ts-expect-error Vercel has no terminals
  await remote.openTerminal()
  // @ts-expect-error nor file events
  await remote.files.watch('.')
  // @ts-expect-error not in the restricted view either
  await remote.restricted().openTerminal()
  // @ts-expect-error E2B has no idle time
  await box.refreshActivity()
  // @ts-expect-error Daytona has no lifetime
  await (await daytona.create()).extendTimeout(1)
  // @ts-expect-error a local sandbox has the network of this machine
  await bare.setNetwork('none')
  // @ts-expect-error so has one on an SSH host
  await (await ssh.create()).setNetwork({ allow: [] })
  await box.setNetwork({ allow: ['github.com', { cidr: '198.51.100.0/24' }, { preset: 'github' }] })
  await remote.setNetwork({
    allow: ['a.com'],
    transform: [{ match: { host: 'a.com' }, headers: { a: secret('a') } }],
  })
  // @ts-expect-error a rule names a host or addresses
  await box.setNetwork({ allow: [{ ports: [443] }] })
  // @ts-expect-error `allow` is required
  await box.setNetwork({ deny: ['a.com'] })
  const network: Network | undefined = bare.network
  void network
  // @ts-expect-error the host keeps no snapshots
  await ssh.listSnapshots()
  // @ts-expect-error the memory provider has a shell only if you script one
  await (await memory.create()).openShell()
  // @ts-expect-error the group has what both members have
  await (await group.create()).pause()
  // @ts-expect-error a method without its handle
  const pause: () => Promise<void> = () => bare.pause()
  void pause
}

/** A parameter can demand an ability. */
declare function saves(handle: SandboxHandle<{ readonly snapshot: 'native' | 'emulated' }>): void
export async function demanded(any: SandboxHandle): Promise<void> {
  saves(await local.create())
  saves(await vercel.create())
  // @ts-expect-error the host keeps no snapshots
  saves(await ssh.create())
  // @ts-expect-error unknown
  saves(any)
  if (supports(any, 'snapshot')) saves(any)
}

/** Providers of other authors, and code that is generic in the capabilities. */
export function generic<C extends Capabilities>(provider: SandboxProvider<C>, own: DriverProvider<C>): void {
  const held: SandboxProvider[] = [provider, own]
  void held
}
export const own = (driver: ProviderDriver<{ readonly stop: 'native' }>): SandboxProvider =>
  new DriverProvider(driver)
export const complete = (provider: SandboxProvider<AllCapabilities>): SandboxProvider => provider
