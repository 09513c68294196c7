import { homedir } from 'node:os'
import path from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import { readEnvironment } from './environment.ts'
import { readFile } from './file.ts'
import { withCurrentNames } from './former-names.ts'
import { jwtOf } from './jwt.ts'
import { type ListenAddress, parseListen, previewListen, refuseUnsafe } from './listen-address.ts'
import { type FileConfig, type FrontName, fileSchema } from './schema.ts'
import { problemOf, unknownKeys } from './unknown-keys.ts'

/** The effective configuration: validated, with defaults and absolute paths. */
export interface DaemonConfig
  extends Omit<
    FileConfig,
    'listen' | 'preview_listen' | 'data_dir' | 'engine_dir' | 'db_path' | 'allowed_images' | 'fronts'
  > {
  readonly listen: ListenAddress
  /** Undefined when previews are off. */
  readonly preview_listen?: ListenAddress
  readonly data_dir: string
  readonly engine_dir: string
  readonly db_path: string
  readonly allowed_images: readonly string[]
  readonly fronts: Readonly<Partial<Record<FrontName, FrontConfig>>>
  /** The configuration file. */
  readonly file?: string
}

export interface FrontConfig {
  readonly listen: ListenAddress
  readonly url?: string
  /** The user of its sandboxes. */
  readonly user?: 'root'
}

export interface LoadOptions {
  /** A file that must exist. Default: `sandkasten.yaml` in `cwd`, if it exists. */
  file?: string
  cwd?: string
  env?: Readonly<Record<string, string | undefined>>
  /** Settings of the command line. They override the file and the environment. */
  overrides?: Readonly<Record<string, unknown>>
}

export async function loadConfig(options: LoadOptions = {}): Promise<DaemonConfig> {
  const { cwd = process.cwd(), env = process.env } = options
  const found = await readFile(options.file ?? env.SANDKASTEN_CONFIG, cwd)
  const given = merge(
    merge(withCurrentNames(found?.content ?? {}), readEnvironment(env)),
    withCurrentNames(options.overrides ?? {}),
  )
  return complete(given, { base: found ? path.dirname(found.file) : cwd, env, file: found?.file })
}

/** Builds the configuration from the values of a file. For tests, and for programs that embed the daemon. */
export function configOf(given: Readonly<Record<string, unknown>>): DaemonConfig {
  return complete({ ...given }, { base: process.cwd(), env: {} })
}

function complete(
  given: Record<string, unknown>,
  place: { base: string; env: Readonly<Record<string, string | undefined>>; file?: string },
): DaemonConfig {
  const current = withCurrentNames(given)
  unknownKeys(current, fileSchema, place.file ?? 'the configuration')
  const parsed = fileSchema.safeParse(current)
  if (!parsed.success) throw problemOf(parsed.error, place.file)
  const values = parsed.data
  const data_dir = path.resolve(place.base, values.data_dir ?? defaultData(place.env))
  const config: DaemonConfig = {
    ...values,
    listen: parseListen(values.listen),
    preview_listen: previewListen(values.preview_listen, parseListen(values.listen)),
    data_dir,
    engine_dir: values.engine_dir ? path.resolve(place.base, values.engine_dir) : engineFolder(data_dir),
    db_path: values.db_path ? path.resolve(place.base, values.db_path) : path.join(data_dir, 'sandkasten.db'),
    allowed_images: values.allowed_images ?? [values.default_image],
    fronts: frontsOf(values.fronts),
    jwt: jwtOf(values.jwt, { base: place.base, apiKey: values.api_key }),
    file: place.file,
  }
  refuseUnsafe(config)
  if (config.isolator === 'process' && config.runtime !== undefined)
    throw new SandboxError('invalid_argument', 'The isolator “process” has no runtime.', {
      hint: 'Leave runtime out, or use the isolator oci or docker.',
    })
  return config
}

function frontsOf(given: FileConfig['fronts']): DaemonConfig['fronts'] {
  return Object.fromEntries(
    Object.entries(given).map(([name, front]) => [name, { ...front, listen: parseListen(front.listen) }]),
  )
}

/** The engine's default folder, where `sandkasten image pull` stores images, or a folder below `data_dir`. */
function engineFolder(data: string): string {
  return data === machineData ? machineData : path.join(data, 'engine')
}

const machineData = '/var/lib/sandkasten'

function defaultData(env: Readonly<Record<string, string | undefined>>): string {
  if (env.SANDKASTEN_HOME) return env.SANDKASTEN_HOME
  return process.getuid?.() === 0 ? machineData : path.join(homedir(), '.sandkasten')
}

function merge(a: Record<string, unknown>, b: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const merged = { ...a }
  for (const [key, value] of Object.entries(b)) {
    if (value === undefined) continue
    const before = merged[key]
    merged[key] = isRecord(before) && isRecord(value) ? merge(before, value) : value
  }
  return merged
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
