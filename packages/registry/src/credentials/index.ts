/** Encrypts what the database must not reveal, and stores the credentials of providers. */

import path from 'node:path'
import { keySource, SealedSecrets } from '@sandkasten/database/sealed'
import { type ProviderKind, providerKinds } from '@sandkasten/sdk/auto'
import { Kinds } from '../providers/kinds.ts'
import { StoredProviders } from '../providers/stored-providers.ts'
import { type DatabaseLocation, registryFolder, type Store } from '../store/index.ts'
import { StoredCredentials } from './stored-credentials.ts'
import { StoredSecrets } from './stored-secrets.ts'
import { openSettings } from './stored-settings.ts'

export interface CredentialsOptions {
  readonly store: Store
  /** Where the key file is, if `SANDKASTEN_SECRET_KEY` is not set. */
  readonly keyFile: string
  /** Default: `providerKinds` of the SDK. */
  readonly kinds?: readonly ProviderKind[]
  /** Used when none is set up and the environment selects none. */
  readonly defaultProvider?: string
  /** Default: the variables of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>
  readonly now?: () => number
}

export interface OpenCredentials {
  readonly secrets: SealedSecrets
  readonly stored: StoredSecrets
  readonly providers: StoredProviders
  readonly credentials: StoredCredentials
}

/** Throws `unauthenticated` if the database has encrypted values, and the key is missing or does not fit. */
export async function openCredentials({
  store,
  keyFile,
  kinds: given = providerKinds,
  defaultProvider,
  env = process.env,
  now = Date.now,
}: CredentialsOptions): Promise<OpenCredentials> {
  const kinds = new Kinds(given)
  const rows = store.providers
  const secrets = await SealedSecrets.open(store.sealed, keySource({ file: keyFile, env }))
  const stored = new StoredSecrets({
    rows: store.secrets,
    sandboxes: store.sandboxes,
    secrets,
    registryId: await store.facts.registryId(),
    now,
  })
  const providers = new StoredProviders({
    rows,
    context: { secrets: stored.valueOf },
    settingsOf: (row) => openSettings(secrets, row),
    isUsed: async (provider) => (await store.sandboxes.allOf(provider)).length > 0,
    kinds,
    env,
    defaultProvider,
  })
  return {
    secrets,
    stored,
    providers,
    credentials: new StoredCredentials({ rows, secrets, providers, kinds, env, now }),
  }
}

/** Beside an SQLite database. For Postgres, in the registry's folder of this machine. */
export async function keyFileOf(
  location: DatabaseLocation,
  store: Store,
  env?: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  if ('file' in location) return `${location.file}.key`
  return path.join(registryFolder(env), `${await store.facts.registryId()}.key`)
}
