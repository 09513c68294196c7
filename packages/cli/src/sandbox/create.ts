import { freeName, type CreateOptions as RegistryOptions } from '@sandkasten/registry'
import { type Network, SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { type NetworkOptions, networkOf, sdkNetwork } from '../network-choice.ts'
import { print } from '../table.ts'
import { canAsk } from './ask.ts'
import { warnWithoutWorker } from './due-work.ts'
import { interruptible } from './interrupt.ts'
import { type Opened, openHere } from './open.ts'
import { withSteps } from './steps.ts'

export interface CreateOptions extends NetworkOptions {
  name?: string
  provider?: string
  repo?: string
  gitTokenEnv?: string
  /** True: the current folder. */
  upload?: string | true
  snapshot?: string
  image?: string
  runtime?: string
  env?: Readonly<Record<string, string>>
  label?: Readonly<Record<string, string>>
  description?: string
  /** In seconds. */
  lifetime?: number
  /** In seconds. */
  idleStop?: number
  port?: readonly number[]
  /** In mebibytes. */
  memory?: number
  cpus?: number
  /** In mebibytes. */
  disk?: number
  user?: 'root'
  option?: Readonly<Record<string, unknown>>
  thread?: string
  yes?: boolean
  json?: boolean
}

export async function create(argument: string | undefined, given: CreateOptions): Promise<number> {
  const options = { ...given, name: nameOf(argument, given.name) }
  refuseContradictions(options)
  await using opened = await openHere()
  const asked = canAsk(options) ? await (await import('./create-questions.ts')).ask(opened, options) : options
  // Chosen here, so that the messages about an interrupted create can name it.
  const name = asked.name ?? (await newName(opened))
  const { record } = await interruptible(
    (signal) =>
      withSteps((onProgress) =>
        opened.sandboxes
          .create({ ...registryOptions(asked), name, signal, onProgress })
          .catch((error: unknown) => {
            throw asked.snapshot === undefined ? error : snapshotError(error)
          }),
      ),
    {
      first: `interrupted; removing what was made of ${name}. Press Ctrl-C again to leave at once.`,
      cleaned: `${name} was not created.`,
      stays: () =>
        `left. A part of ${name} may remain: look with sandkasten sandbox show ${name}; sandkasten sandbox prune removes it.`,
    },
  )
  print(options.json, record, () => record.name)
  await warnWithoutWorker(opened.registry, name, asked)
  if (process.stdout.isTTY && !options.json) say(`Use it: sandkasten sandbox exec ${record.name} -- COMMAND`)
  return 0
}

/** The hints of providers name commands of their own. */
function snapshotError(error: unknown): unknown {
  if (!SandboxError.is(error, 'not_found')) return error
  return new SandboxError('not_found', error.message, {
    cause: error,
    hint: 'List the snapshots of a provider: sandkasten sandbox snapshots --provider PROVIDER.',
  })
}

/** A readable name that no sandbox has. */
export async function newName({ sandboxes }: Opened): Promise<string> {
  return freeName((await sandboxes.list()).map(({ name }) => name))
}

function nameOf(argument: string | undefined, option: string | undefined): string | undefined {
  if (argument === undefined || option === undefined || argument === option) return argument ?? option
  throw new SandboxError('invalid_argument', `Two names are given: ${argument} and ${option}.`, {
    hint: 'Leave one of them out.',
  })
}

function refuseContradictions({ repo, upload, snapshot, gitTokenEnv }: CreateOptions): void {
  const sources = Object.entries({ repo, upload }).filter(([, value]) => value !== undefined)
  if (sources.length > 1)
    throw new SandboxError('invalid_argument', '--repo and --upload cannot be combined.', {
      hint: 'A sandbox starts with one project; copy more with sandkasten sandbox cp.',
    })
  if (gitTokenEnv !== undefined && repo === undefined)
    throw new SandboxError('invalid_argument', '--git-token-env needs --repo.', {
      hint: 'Add the address of the repository.',
    })
  if (gitTokenEnv !== undefined && !process.env[gitTokenEnv])
    throw new SandboxError('invalid_argument', 'The variable that --git-token-env names is not set.', {
      hint: 'Pass the name of a variable, not the token itself, and export the variable.',
    })
  if (snapshot === '')
    throw new SandboxError('invalid_argument', '--snapshot is empty.', {
      hint: 'sandkasten sandbox show NAME prints the last snapshot of a sandbox.',
    })
}

function registryOptions(options: CreateOptions): RegistryOptions {
  const network = networkOf(options)
  const { memory, cpus, disk, lifetime, idleStop, upload, gitTokenEnv } = options
  const limits = { memoryMb: memory && Math.round(memory), vcpus: cpus, diskMb: disk && Math.round(disk) }
  const resources = Object.fromEntries(Object.entries(limits).filter(([, value]) => value !== undefined))
  const all: RegistryOptions = {
    provider: options.provider,
    repo: options.repo,
    gitToken: gitTokenEnv === undefined ? undefined : process.env[gitTokenEnv],
    upload: upload === true ? process.cwd() : upload,
    snapshotId: options.snapshot,
    image: options.image,
    runtime: options.runtime,
    envVars: options.env,
    labels: options.label,
    label: options.description,
    lifetimeMs: lifetime && Math.round(lifetime * 1000),
    idleStopMs: idleStop && Math.round(idleStop * 1000),
    ports: options.port,
    resources: Object.keys(resources).length > 0 ? resources : undefined,
    user: options.user,
    network: network && (sdkNetwork(network) as Network),
    providerOptions: options.option,
    threadId: options.thread,
  }
  // A provider refuses an option that it does not have, even if it is undefined.
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}
