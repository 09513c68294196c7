import {
  type Network,
  SandboxError,
  type SandboxHandle,
  type SandboxProvider,
  supports,
} from '@sandkasten/sdk'
import { normalizeNetwork } from '@sandkasten/sdk/provider'
import type { SandboxChanges, SandboxRow } from '../store/index.ts'
import type { SandboxSettings } from '../types.ts'
import { request } from './deadline.ts'
import { noting, question, type Run } from './run.ts'
import { goneError, markGone, settle } from './settle.ts'
import { observe, settled } from './truth.ts'

/**
 * Replaces the network, under the lease:
 *
 *     row: `networkNext` ─► sandbox ─► row: `network`
 *          │ refused: `networkNext` is removed, and the earlier network is in force
 *          │ not running, or this process dies: the next start applies it before anybody gets the sandbox
 */
export async function setNetwork(run: Run, wanted: Network): Promise<SandboxRow> {
  const network = checkedNetwork(wanted)
  return noting(run, async () => {
    const { context, lease } = run
    const provider = await context.providers.of(lease.row)
    if (provider.capabilities.egress === undefined) throw cannotChange(provider)
    await settle(run)
    const { provider_sandbox_id: sandboxId } = lease.row
    if (sandboxId === null) {
      if (lease.row.snapshot_id === null) throw goneError(lease.row)
      return lease.update(withSettings(lease.row, { network, networkNext: undefined }))
    }
    const observed = await settled(question(run, provider, sandboxId))
    if (observed.status === 'gone') {
      const row = await markGone(run)
      if (row.snapshot_id === null) throw goneError(row)
      return lease.update(withSettings(row, { network, networkNext: undefined }))
    }
    await lease.update(withSettings(lease.row, { networkNext: network }))
    try {
      return await applyNetwork(run, provider, observed.handle)
    } catch (error) {
      const waits = observed.status !== 'running' && SandboxError.is(error, 'not_running')
      if (!waits) throw error
      return lease.row
    }
  })
}

/** Applies a network that is recorded and not yet in force. Returns the row. */
export async function applyNetwork(
  run: Run,
  provider: SandboxProvider,
  handle: SandboxHandle,
): Promise<SandboxRow> {
  const { context, lease } = run
  const { networkNext } = settingsIn(lease.row)
  if (networkNext === undefined) return lease.row
  const { changeMs: ms, cleanUpMs: graceMs } = context.timeouts
  const what = `Setting the network of “${lease.row.name}” at ${provider.name}`
  try {
    await request({ ms, graceMs, signal: lease.signal, what }, async (signal) => {
      if (!supports(handle, 'egress')) throw cannotChange(provider)
      await context.withSecretsOf(lease.row, () => handle.setNetwork(networkNext, { signal }))
    })
  } catch (error) {
    // The sandbox keeps its network, and a restore must not widen it.
    if (SandboxError.is(error, ...refusals))
      await lease.update(withSettings(lease.row, { networkNext: undefined }))
    throw error
  }
  return lease.update(withSettings(lease.row, { network: networkNext, networkNext: undefined }))
}

/** Finishes a change of the network whose process died. A refused one is forgotten. */
export async function recoverNetwork(run: Run): Promise<void> {
  const { context, lease } = run
  const { provider_sandbox_id: sandboxId } = lease.row
  if (sandboxId === null || settingsIn(lease.row).networkNext === undefined) return
  const provider = await context.providers.of(lease.row)
  const observed = await observe(question(run, provider, sandboxId))
  if (observed.status === 'gone') return
  await applyNetwork(run, provider, observed.handle).catch((error: unknown) => {
    if (!SandboxError.is(error, ...refusals, 'not_running')) throw error
  })
}

/** The normal form. Throws for a network that is wrong or too large for a row. */
export function checkedNetwork(given: Network): Network {
  const network = normalizeNetwork(given)
  if (sizeOf(network) <= mostBytes) return network
  throw new SandboxError('too_large', `The network policy is larger than ${mostBytes} bytes.`)
}

/** Whether a network waits for the next start. */
export function hasNextNetwork(row: SandboxRow): boolean {
  return settingsIn(row).networkNext !== undefined
}

/**
 * The change that records the network which the sandbox has: a caller of its handle may have replaced the one that the
 * row knows. Without a known one, a restore leaves the network to the snapshot.
 */
export function seenNetwork(row: SandboxRow, { network }: SandboxHandle): Pick<SandboxChanges, 'settings'> {
  const settings = settingsIn(row)
  if (network === undefined || settings.network === undefined || settings.networkNext !== undefined) return {}
  if (sizeOf(network) > mostBytes) return {}
  return withSettings(row, { network })
}

/** The newest network that is known. */
export function networkOf({ network, networkNext }: SandboxSettings): Network | undefined {
  return networkNext ?? network
}

/** Two of them fit into a row, with the other settings. */
const mostBytes = 96 * 1024

function sizeOf(network: Network): number {
  return Buffer.byteLength(JSON.stringify(network))
}

function settingsIn(row: SandboxRow): SandboxSettings {
  return JSON.parse(row.settings) as SandboxSettings
}

function withSettings(
  row: SandboxRow,
  changes: Partial<SandboxSettings>,
): Pick<SandboxChanges, 'settings'> & {
  settings: string
} {
  return { settings: JSON.stringify({ ...settingsIn(row), ...changes } satisfies SandboxSettings) }
}

/** Errors after which the earlier network is certainly in force. */
const refusals = [
  'invalid_argument',
  'unsupported',
  'conflict',
  'forbidden',
  'permission_denied',
  'too_large',
  'quota_exceeded',
] as const

function cannotChange({ name }: SandboxProvider): SandboxError {
  return new SandboxError('unsupported', `The provider “${name}” cannot change the network of a sandbox.`, {
    provider: name,
    details: { ability: 'egress' },
    hint: 'Choose the network when you create the sandbox, or choose a provider with the ability egress.',
  })
}
