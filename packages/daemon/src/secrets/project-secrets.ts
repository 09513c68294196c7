import { type KeySource, SealedSecrets, unreadable } from '@sandkasten/database/sealed'
import { SandboxError } from '@sandkasten/sdk'
import { checkSecretValue, randomId } from '@sandkasten/sdk/provider'
import type { Caller } from '../keys/index.ts'
import type { Log } from '../log.ts'
import { inlinePrefix, type SecretRow, type Store } from '../store/index.ts'
import { noSecret, type Secret, secretLimits, secretName, secretOf, tooManySecrets } from './facts.ts'

type Project = Pick<Caller, 'projectId'>

/** The secrets of all projects. Values are encrypted with a key that the database does not have. */
export class ProjectSecrets {
  readonly #store: Store
  readonly #source: KeySource
  readonly #log: Log
  #sealed: Promise<SealedSecrets> | undefined
  /** Called after a secret of the project was set or deleted. */
  onChange: (projectId: string, name: string) => Promise<void> = async () => {}

  constructor(given: { store: Store; source: KeySource; log: Log }) {
    this.#store = given.store
    this.#source = given.source
    this.#log = given.log
  }

  /** Ends an interrupted rotation. Without the key the daemon works, and only secrets fail. */
  async start(): Promise<void> {
    await this.#opened().catch((error) => {
      this.#log.error({ err: error.cause ?? error }, 'cannot read the secrets of projects')
    })
  }

  async list(project: Project): Promise<Secret[]> {
    return (await this.known(project)).filter(({ name }) => !name.startsWith(inlinePrefix))
  }

  /** All secrets that a policy may name, also those of `keep`. */
  async known({ projectId }: Project): Promise<Secret[]> {
    return (await this.#store.secrets.list(projectId)).map(secretOf)
  }

  /** Keeps a literal header of a front as a secret for this host, and returns its name. `dropUnused` deletes it. */
  async keep(project: Project, value: string, host: string): Promise<string> {
    const { name } = await this.#write(project, `${inlinePrefix}${randomId()}`, { value, hosts: [host] })
    return name
  }

  /** Deletes what `keep` has kept and no session or snapshot needs. */
  dropUnused(): Promise<void> {
    return this.#store.secrets.dropInline(Date.now() - unusedMs)
  }

  /** Replaces the value of the secret, or adds the secret. */
  async put(
    project: Project,
    name: string,
    given: { value: string; hosts?: readonly string[] },
  ): Promise<Secret> {
    if (name.startsWith(inlinePrefix)) throw wrongName(name)
    const secret = await this.#write(project, name, given)
    await this.onChange(project.projectId, name)
    return secret
  }

  async #write(
    { projectId }: Project,
    name: string,
    { value, hosts }: { value: string; hosts?: readonly string[] },
  ): Promise<Secret> {
    check(name, value)
    const isInline = name.startsWith(inlinePrefix)
    const sealed = await this.#opened()
    const row = await this.#using(() =>
      sealed.storing(() =>
        this.#store.secrets.put(
          {
            id: randomId(),
            project_id: projectId,
            name,
            hosts: hosts ? JSON.stringify(hosts) : null,
            updated_at: Date.now(),
          },
          (id) =>
            sealed.seal(JSON.stringify({ project: projectId, name, value } satisfies Sealed), placeOf(id)),
          isInline ? secretLimits.inlinePerProject : secretLimits.perProject,
        ),
      ),
    )
    if (!row) throw tooManySecrets()
    return secretOf(row)
  }

  async delete({ projectId }: Project, name: string): Promise<void> {
    if (!secretName.test(name) || !(await this.#store.secrets.delete(projectId, name))) throw noSecret(name)
    await this.onChange(projectId, name)
  }

  /** The values of these secrets, for the gateway. Secrets that do not exist are left out. */
  async values(projectId: string, names: readonly string[]): Promise<Record<string, string>> {
    const rows = await this.#store.secrets.named(projectId, names)
    if (rows.length === 0) return {}
    const sealed = await this.#opened()
    const values = await Promise.all(
      rows.map(async (row) => [row.name, await this.#using(() => open(sealed, row))] as const),
    )
    return Object.fromEntries(values)
  }

  /** Encrypts all values with a new key. */
  async rotateKey(): Promise<{ keyId: string; values: number }> {
    const sealed = await this.#opened()
    return this.#using(() => sealed.rotate())
  }

  #opened(): Promise<SealedSecrets> {
    this.#sealed ??= this.#using(() => SealedSecrets.open(this.#store.sealed, this.#source)).catch(
      (error) => {
        this.#sealed = undefined
        throw error
      },
    )
    return this.#sealed
  }

  /** A missing or wrong key is a fault of the daemon, and not of the caller's key. */
  async #using<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work()
    } catch (cause) {
      if (!SandboxError.is(cause, 'unauthenticated', 'permission_denied')) throw cause
      this.#log.error({ err: cause }, 'cannot use the key of the secrets')
      throw new SandboxError(
        'unavailable',
        'The daemon cannot read its secrets: their key is missing or wrong.',
        {
          cause,
          hint: 'Its log says which key it needs.',
        },
      )
    }
  }
}

interface Sealed {
  readonly project: string
  readonly name: string
  readonly value: string
}

/** Throws if the row was moved to another project or name. */
async function open(sealed: SealedSecrets, row: SecretRow): Promise<string> {
  const { project, name, value } = JSON.parse(await sealed.open(row.sealed, placeOf(row.id))) as Sealed
  if (project !== row.project_id || name !== row.name) throw unreadable(placeOf(row.id))
  return value
}

function placeOf(row: string) {
  return { table: 'secrets', column: 'sealed', row } as const
}

/** How long a kept header may have no session: its create may be in progress. */
const unusedMs = 3_600_000

function wrongName(name: string): SandboxError {
  return new SandboxError('invalid_argument', `${JSON.stringify(name)} is not a name of a secret.`, {
    hint: 'Use 1 to 64 letters, digits, dots, dashes and underscores, and begin with a letter or digit, not with “inline.”.',
  })
}

/** Never quotes the value. */
function check(name: string, value: string): void {
  if (!secretName.test(name)) throw wrongName(name)
  checkSecretValue(value, `The value of the secret ${JSON.stringify(name)}`)
}
