import type { AgentRun } from '@sandkasten/opencode'
import { quoteArg, supports } from '@sandkasten/sdk'
import { say } from '../../errors.ts'
import { surviveOutputFailures } from '../../output.ts'
import { registryPlace } from '../../registry-place.ts'
import { Interrupted, interruptible } from '../interrupt.ts'
import { type Opened, openHere } from '../open.ts'
import { withSteps } from '../steps.ts'
import { attachAgent, noTerminals } from './attach.ts'
import { type Changes, changesIn, sayChanges } from './changes.ts'
import { requireAnswer, requireModel } from './model.ts'
import { type CodeOptions, checkOptions } from './options.ts'
import { createPlace, type Place, recordOf, resumePlace, type Setup } from './place.ts'
import { planOf } from './plan.ts'
import { type Project, projectAt } from './project.ts'
import { promptOf, runPrompt } from './prompt.ts'
import { choosePull, type Pulled, pull } from './pull.ts'
import { Memory } from './remembered.ts'
import { type ReadyAgent, startAgent } from './server.ts'
import { isSessionId, knownSession, lastSession } from './sessions.ts'
import { settingsOf } from './settings.ts'

/** Everything that one run of `sandkasten code` has, once its agent is ready. */
interface Work {
  readonly project: Project
  readonly options: CodeOptions
  readonly name: string
  readonly place: Place
  readonly agent: ReadyAgent
  readonly memory: Memory
  readonly sessionId: string | undefined
  /** How to come back. */
  readonly back: string
}

/**
 * A coding agent in the sandbox of this project.
 *
 *     find or create the sandbox ─► upload ─► agent ─► terminal, or one prompt ─► changes ─► pull
 */
export async function code(argument: string | undefined, options: CodeOptions): Promise<number> {
  checkOptions(options)
  const prompt = options.prompt === undefined ? undefined : await promptOf(options.prompt)
  const project = await projectAt(argument ?? '.')
  const name = options.sandbox ?? project.name
  await using opened = await openHere()
  const back = backTo(argument, options.sandbox)
  const work = await prepare({ project, name, options, opened, back })
  await using _hold = work.place.hold
  return await (prompt === undefined ? interactive(work) : headless(work, prompt))
}

interface Preparing extends Pick<Work, 'project' | 'name' | 'options' | 'back'> {
  readonly opened: Opened
}

async function prepare({ project, name, options, opened, back }: Preparing): Promise<Work> {
  const record = await recordOf(opened, name)
  const { data } = await registryPlace()
  const before = record === undefined ? {} : await new Memory(data, record.id).read()
  const plan = planOf(options, before, project)
  await requireModel({ ...plan.choices, agent: plan.agent, credentials: [] }, project.folder)
  return interruptible(
    (signal) =>
      withSteps(async (onProgress) => {
        await requireAnswer(plan.model, signal)
        const setup: Setup = { opened, project, plan, name, signal, onProgress }
        const place =
          record === undefined
            ? await createPlace(
                { ...setup, label: `sandkasten code ${project.folder}`, purpose: 'code' },
                options.provider,
              )
            : await resumePlace(setup, record, options.provider)
        try {
          if (options.prompt === undefined && !supports(place.hold.handle, 'terminal'))
            throw noTerminals(place.hold.record.provider)
          for (const variable of place.access.readable)
            say(
              `sandkasten: the agent can read ${variable}: nothing here can add it to requests outside of the sandbox.`,
            )
          const memory = new Memory(data, place.hold.record.id)
          await memory.add(plan.choices)
          const agent = await startAgent(
            setup,
            place,
            settingsOf(plan.agent, plan.model, place.access),
            memory,
          )
          const last = options.new ? undefined : (await memory.read()).sessions?.[plan.agent]
          const sessionId = await knownSession(agent, last)
          if (last !== undefined && sessionId === undefined)
            say('sandkasten: the last session is gone; this is a new one.')
          return { project, options, name, place, agent, memory, sessionId, back }
        } catch (error) {
          await place.hold.release()
          throw error
        }
      }),
    {
      first: 'interrupted; stopping. Press Ctrl-C again to leave at once.',
      cleaned: `stopped. What there is of ${name} stays. Come back: ${back}`,
      stays: () => `left. What there is of ${name} stays. Come back: ${back}`,
    },
  )
}

async function interactive(work: Work): Promise<number> {
  const { place, agent, memory, sessionId, name, back } = work
  let isHungUp = false
  process.once('SIGHUP', () => {
    isHungUp = true
  })
  surviveOutputFailures()
  const exitCode = await attachAgent(place, agent, sessionId)
  const last = await lastSession(place.hold, agent)
  if (last !== undefined) await memory.addSession(agent.name, last)
  if (isHungUp) return exitCode
  if (exitCode !== 0) say(`sandkasten: ${agent.name} ended with exit code ${exitCode}.`)
  await finish(work)
  say(`sandkasten: ${name} stays. Come back: ${back}`)
  return exitCode
}

async function headless(work: Work, prompt: string): Promise<number> {
  const { place, agent, options, memory, name, back, sessionId: before } = work
  let sessionId = before
  let run: AgentRun | undefined
  let interrupted: Interrupted | undefined
  // The answer's reader may be gone, and the sandbox still has to be left in order.
  surviveOutputFailures()
  try {
    run = await interruptible(
      (signal) =>
        runPrompt(place, agent, {
          prompt,
          sessionId,
          streams: !options.json,
          onSession: (id) => {
            sessionId = isSessionId(id) ? id : sessionId
          },
          signal,
        }),
      {
        first: 'cancelling the prompt. Press Ctrl-C again to leave at once.',
        cleaned: 'the prompt was cancelled.',
        stays: () => `left. ${name} stays. Come back: ${back}`,
      },
    )
  } catch (error) {
    if (!(error instanceof Interrupted)) throw error
    interrupted = error
  } finally {
    if (sessionId !== undefined) await memory.addSession(agent.name, sessionId)
  }
  const { changes, pulled } = await finish(work)
  if (run?.error !== undefined) say(`sandkasten: ${agent.name} failed: ${run.error}`)
  if (options.json) console.log(JSON.stringify(reportOf(work, { run, sessionId, changes, pulled })))
  say(`sandkasten: ${name} stays. Come back: ${back}`)
  if (interrupted !== undefined) return interrupted.exitCode
  return run?.error === undefined ? 0 : 1
}

interface Finished {
  readonly changes: Changes
  readonly pulled: Pulled
}

/** Shows what changed, and pulls it if the user wants that. */
async function finish({ place, project, options, memory, name, back }: Work): Promise<Finished> {
  return interruptible(
    async (signal) => {
      const both = AbortSignal.any([signal, place.hold.signal])
      const changes = await withSteps(
        (onProgress) => {
          onProgress({ step: 'wait', message: `looking for changes in ${name}` })
          return changesIn(place.hold, project.folder, both)
        },
        { quiet: true },
      )
      sayChanges(name, changes)
      const hasChanges = changes.files.length > 0 || changes.conflicts.length > 0
      const as = hasChanges ? await choosePull(options, project) : 'no'
      return { changes, pulled: await pull(place.hold, project, as, { folder: memory.folder, signal: both }) }
    },
    {
      cleaned: `left. ${name} stays. Come back: ${back}`,
      stays: () => `left. ${name} stays. Come back: ${back}`,
    },
  )
}

function reportOf(
  { name, agent }: Work,
  {
    run,
    sessionId,
    changes,
    pulled,
  }: Finished & { run: AgentRun | undefined; sessionId: string | undefined },
) {
  const { diff, files, conflicts } = changes
  const { text = '', error } = run ?? { error: 'cancelled' }
  return { sandbox: name, agent: agent.name, sessionId, text, error, diff, files, conflicts, ...pulled }
}

function backTo(argument: string | undefined, sandbox: string | undefined): string {
  const parts = [argument === undefined || argument === '.' ? '' : quoteArg(argument)]
  if (sandbox !== undefined) parts.push('--sandbox', quoteArg(sandbox))
  return ['sandkasten code', ...parts].filter(Boolean).join(' ')
}
