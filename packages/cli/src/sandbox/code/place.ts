import type { CreateOptions, Hold, ProgressStep, SandboxRecord } from '@sandkasten/registry'
import { type Network, SandboxError, supports } from '@sandkasten/sdk'
import { type UploadResult, uploadProject } from '@sandkasten/sdk/recipes'
import { say } from '../../errors.ts'
import { oneLine } from '../../format.ts'
import type { Opened } from '../open.ts'
import type { Access } from './access.ts'
import { type CodeOptions, invalid } from './options.ts'
import type { Plan } from './plan.ts'
import type { Project } from './project.ts'
import { checkSize } from './size.ts'

export interface Setup {
  readonly opened: Opened
  readonly project: Project
  readonly plan: Plan
  readonly name: string
  readonly signal: AbortSignal
  readonly onProgress: (step: ProgressStep) => void
}

/** How a new sandbox is made. */
export interface NewPlace extends Setup {
  readonly label: string
  /** Shown to others who want to stop the sandbox. */
  readonly purpose: string
  /** More options. */
  readonly sandbox?: CreateOptions
}

/** The sandbox of the project, with the working tree in it. */
export interface Place {
  readonly hold: Hold
  readonly access: Access
}

export async function recordOf({ sandboxes }: Opened, name: string): Promise<SandboxRecord | undefined> {
  try {
    return await sandboxes.get(name)
  } catch (error) {
    if (SandboxError.is(error, 'not_found')) return undefined
    throw error
  }
}

/** Creates the sandbox, and uploads the project. */
export async function createPlace(setup: NewPlace, provider: CodeOptions['provider']): Promise<Place> {
  const { opened, project, plan, name, label, purpose, sandbox = {}, signal, onProgress } = setup
  onProgress({ step: 'upload', message: `looking at ${project.folder}` })
  await checkSize(project, undefined, signal)
  const [best] = plan.accesses
  let resources: typeof wanted | undefined = sandbox.resources === undefined ? wanted : undefined
  for (let at = 0; ; ) {
    const access = plan.accesses[at]!
    try {
      await opened.sandboxes.create({
        ...sandbox,
        name,
        upload: project.folder,
        label: label.slice(0, 200),
        ...(provider === undefined ? {} : { provider }),
        ...(access.network === undefined ? {} : { network: access.network }),
        ...(resources === undefined ? {} : { resources }),
        signal,
        onProgress,
      })
      if (access.network === undefined && best?.network !== undefined)
        say(
          'sandkasten: this provider has no network policies; the sandbox has the provider’s default network.',
        )
      const hold = await opened.sandboxes.hold(name, { purpose, signal, onProgress })
      return { hold, access }
    } catch (error) {
      if (resources !== undefined && isAboutResources(error)) resources = undefined
      else if (at + 1 < plan.accesses.length && isAboutNetwork(error)) at += 1
      else throw error
    }
  }
}

/** Enough for the agent and for the tests of a project. The default of the engine is enough for neither. */
const wanted = { memoryMb: 2048, vcpus: 2 } as const

/** Starts the sandbox if it is stopped, applies the network, and uploads what changed here. */
export async function resumePlace(setup: Setup, record: SandboxRecord, provider?: string): Promise<Place> {
  const { opened, project, plan, name, signal, onProgress } = setup
  if (provider !== undefined && provider !== record.provider)
    throw invalid(
      `The sandbox ${name} of this folder is at ${record.provider}, not at ${provider}.`,
      `Use it without --provider, or name another one with --sandbox.`,
    )
  const hold = await opened.sandboxes.hold(name, { purpose: 'code', signal, onProgress })
  try {
    const access = await applyNetwork(hold, plan, signal)
    onProgress({ step: 'upload', message: `comparing ${project.folder} with ${name}` })
    const result = await uploadProject(hold.handle, {
      projectDir: project.folder,
      remotePath: directoryOf(hold),
      signal,
    })
    sayUpload(name, result)
    return { hold, access }
  } catch (error) {
    await hold.release()
    throw error
  }
}

export function directoryOf({ record, handle }: Pick<Hold, 'record' | 'handle'>): string {
  return record.directory ?? handle.workdir
}

/** The first way to reach the model that the sandbox can have. */
export async function applyNetwork({ handle }: Hold, plan: Plan, signal: AbortSignal): Promise<Access> {
  const last = plan.accesses.at(-1)!
  if (!supports(handle, 'egress')) {
    if (last.network === undefined || last.network === handle.network) return last
    throw new SandboxError('unsupported', `The provider ${handle.provider} has no network policies.`, {
      hint: 'Leave --allow, --deny and --network out.',
    })
  }
  for (const [at, access] of plan.accesses.entries()) {
    try {
      if (access.network !== undefined) await handle.setNetwork(access.network as Network, { signal })
      return access
    } catch (error) {
      if (at + 1 === plan.accesses.length || !isAboutNetwork(error)) throw error
    }
  }
  return last
}

/** Whether another way to reach the model may work. Everything was refused before anything was created. */
function isAboutNetwork(error: unknown): boolean {
  if (!(error instanceof SandboxError)) return false
  const { option, ability, secret } = (error.details ?? {}) as Record<string, unknown>
  if (error.code === 'unsupported') return option === 'network' || ability === 'egress'
  return error.code === 'invalid_argument' && secret !== undefined
}

function isAboutResources(error: unknown): boolean {
  return SandboxError.is(error, 'unsupported') && String(error.details?.option).startsWith('resources')
}

const shownConflicts = 10

function sayUpload(name: string, { sent, removed, conflicts }: UploadResult): void {
  const parts = [sent > 0 ? `${sent} sent` : '', removed > 0 ? `${removed} removed` : ''].filter(Boolean)
  if (parts.length > 0) say(`sandkasten: files that changed here since the last time: ${parts.join(', ')}.`)
  if (conflicts.length === 0) return
  say(`sandkasten: not uploaded, because ${name} has its own changes:`)
  for (const { path, reason } of conflicts.slice(0, shownConflicts))
    say(`  ${oneLine(path)}: ${oneLine(reason)}`)
  if (conflicts.length > shownConflicts) say(`  … and ${conflicts.length - shownConflicts} more`)
}
