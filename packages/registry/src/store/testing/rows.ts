import { randomUUID } from 'node:crypto'
import type { ProviderRow, SandboxRow } from '../index.ts'

/** The scope of the command line. */
export const home = { app_id: '', guild_id: '' }

/** A key id, and a text that looks encrypted with that key. */
export const keyId = '0123456789abcdef'
export const sealed = `sk1:${keyId}:AAAA`

/** The row of a running sandbox with a free lease. */
export function sandboxRow(given: Partial<SandboxRow> = {}): SandboxRow {
  return {
    id: randomUUID(),
    ...home,
    channel_id: null,
    name: 'demo',
    live: 1,
    provider: 'memory',
    credentials_id: null,
    provider_sandbox_id: 'memory:1',
    status: 'running',
    error_message: null,
    incarnation: 1,
    base_url: null,
    snapshot_id: null,
    snapshot_at: null,
    snapshot_auto: 0,
    repo_url: null,
    label: null,
    directory: null,
    settings: '{}',
    env: null,
    opencode_password: null,
    expires_at: null,
    idle_stop_ms: null,
    due_at: null,
    last_used_at: 1_000,
    last_checked_at: null,
    created_at: 1_000,
    updated_at: 1_000,
    destroyed_at: null,
    lease_token: 0,
    lease_holder: null,
    lease_beat: 0,
    operation: null,
    ...given,
  }
}

export const failed = { status: 'failed', provider_sandbox_id: null, error_message: 'no luck' } as const

export function providerRow(given: Partial<ProviderRow> = {}): ProviderRow {
  return {
    id: randomUUID(),
    app_id: '',
    provider: 'daytona',
    label: null,
    api_key: sealed,
    config_json: '{}',
    is_default: 0,
    created_at: 1_000,
    updated_at: 1_000,
    checked_at: null,
    ...given,
  }
}
