import { setTimeout as wait } from 'node:timers/promises'
import { SandboxError } from '@sandkasten/sdk'
import type { Context } from '../context.ts'
import type { AgentAnswer } from '../spec/agent.ts'
import type { TurnRow } from '../store/index.ts'
import { problemOf } from '../words.ts'
import { type AnswerParts, answerOf, footerOf, isEnd, storedEnding } from './answers.ts'
import { putAttachments } from './attachments.ts'
import type { Display } from './display.ts'
import type { Live } from './live.ts'
import type { Questions } from './questions.ts'
import type { Steps } from './steps.ts'

/** What a turn needs of its conversation. */
export interface TurnRooms {
  readonly context: Context
  readonly token: number
  readonly display: Display
  readonly questions: Questions
  readonly steps: Steps
  /** Ends this turn: a user aborted it. */
  readonly aborted: AbortSignal
  /** Stops the conversation in this process, and leaves the turn as it is. */
  readonly stopped: AbortSignal
  /** The running agent, opened if it is not. */
  live(signal: AbortSignal): Promise<Live>
  /** The agent is gone: the next call of `live` opens another one. */
  drop(): Promise<void>
  retitle(title: string): Promise<void>
}

/** Tries of one turn, each with a new connection to the agent. */
const mostTries = 4
/** How long an agent may take to end its answer after an abort. */
const abortGraceMs = 10_000

/**
 * Answers one message, from wherever an earlier process left it:
 *
 *     queued ─► preparing ─► working ─► done, failed or aborted ─► completely shown ─► final
 *                 sandbox      agent has the message? follow : send
 */
export async function runTurn(turn: TurnRow, rooms: TurnRooms): Promise<void> {
  const { context, token, stopped } = rooms
  const startedAt = turn.started_at ?? context.now()
  let parts = endingOf(turn)
  if (!parts) {
    if (turn.state === 'queued')
      await context.store.turns.update(turn.id, { state: 'preparing', started_at: startedAt }, token)
    parts = await answered(turn, startedAt, rooms)
    stopped.throwIfAborted()
    const { footer } = parts
    await context.store.turns.update(
      turn.id,
      {
        state: parts.state,
        ending: storedEnding(parts),
        model: footer?.model ?? null,
        cost_micro_usd: footer?.costUsd === undefined ? null : Math.round(footer.costUsd * 1e6),
        ended_at: context.now(),
      },
      token,
    )
  }
  await rooms.questions.end('The answer has ended.')
  await rooms.display.end(answerOf(turn, parts))
  await context.store.turns.update(turn.id, { is_final: 1, ending: null }, token)
  await context.spool.remove(turn.id)
}

/** How the turn ended, if an earlier process stored that. */
function endingOf({ state, ending }: TurnRow): AnswerParts | undefined {
  return isEnd(state) && ending !== null ? (JSON.parse(ending) as AnswerParts) : undefined
}

/** Returns the end of the answer. Throws only when the conversation is stopped. */
async function answered(turn: TurnRow, startedAt: number, rooms: TurnRooms): Promise<AnswerParts> {
  const { steps, display, aborted, stopped } = rooms
  const signal = AbortSignal.any([aborted, stopped])
  let seen: AgentAnswer | undefined
  const show = (parts: AnswerParts) => {
    if (!stopped.aborted) display.set(answerOf(turn, parts))
  }
  const blocks = () => [...steps.blocks, ...(seen?.blocks ?? [])]
  for (let tries = 1; ; tries += 1) {
    let live: Live | undefined
    try {
      if (aborted.aborted && turn.agent_message_id === null) return { state: 'aborted', blocks: blocks() }
      show({ state: 'preparing', blocks: blocks() })
      // An aborted turn that the agent has is ended by the agent.
      live = await rooms.live(turn.agent_message_id === null ? signal : stopped)
      await send(turn, live, rooms, signal)
      steps.end()
      const last = await follow(turn, live, rooms, (answer) => {
        seen = answer
        // Such as a model that does not answer, which the agent asks again and again.
        const error = answer.error === undefined ? {} : { error: { message: answer.error } }
        if (!answer.isFinal) show({ state: 'working', blocks: blocks(), ...error })
      })
      const footer = footerOf(live.hold.record, last, rooms.context.now() - startedAt)
      const { state, error } = last
      return {
        state: state === 'working' ? 'failed' : state,
        blocks: blocks(),
        ...(error !== undefined && { error: { message: error } }),
        footer,
      }
    } catch (error) {
      stopped.throwIfAborted()
      if (aborted.aborted) return { state: 'aborted', blocks: blocks() }
      const reason = live?.hold.signal.aborted ? live.hold.signal.reason : error
      await rooms.drop()
      // Before the agent is reached, the registry has tried for long enough.
      const isLost = live !== undefined && SandboxError.is(reason, 'interrupted', 'unavailable')
      if (isLost && tries < mostTries) {
        steps.begin('the connection to the agent was lost; trying again')
        await wait(rooms.context.retryMs * 2 ** tries, undefined, { signal }).catch(() => {})
        stopped.throwIfAborted()
        continue
      }
      if (!SandboxError.is(reason)) console.error(`threads: turn ${turn.id}:`, reason)
      steps.end()
      return { state: 'failed', blocks: blocks(), error: problemOf(reason) }
    }
  }
}

/** Hands the message to the agent, unless it has it. The id is stored before, so that it is the same after a crash. */
async function send(
  turn: TurnRow,
  { agent, hold, directory }: Live,
  rooms: TurnRooms,
  signal: AbortSignal,
): Promise<void> {
  const { context, token, steps } = rooms
  const call = { signal: AbortSignal.any([signal, hold.signal]) }
  if (turn.agent_message_id !== null && (await agent.has(turn.agent_message_id, call))) return
  if (turn.agent_message_id !== null && rooms.aborted.aborted) rooms.aborted.throwIfAborted()
  const files = await putAttachments(context, turn, {
    handle: hold.handle,
    directory,
    steps,
    ...call,
  })
  const { model } = (await context.store.threads.get(turn.thread_id))!
  if (turn.agent_message_id === null) {
    turn.agent_message_id = context.agents.newMessageId()
    await context.store.turns.update(
      turn.id,
      { state: 'working', agent_message_id: turn.agent_message_id },
      token,
    )
  }
  const message = { id: turn.agent_message_id, text: turn.text, files, model: model ?? undefined }
  await agent.prompt(message, call)
}

async function follow(
  turn: TurnRow,
  { agent, hold }: Live,
  rooms: TurnRooms,
  onAnswer: (answer: AgentAnswer) => void,
): Promise<AgentAnswer> {
  const { aborted, stopped, questions } = rooms
  const overdue = new AbortController()
  const signal = AbortSignal.any([stopped, hold.signal, overdue.signal])
  let timer: NodeJS.Timeout | undefined
  const abort = () => {
    timer = setTimeout(() => overdue.abort(aborted.reason), abortGraceMs)
    agent.abort({ signal }).catch(() => overdue.abort(aborted.reason))
  }
  if (aborted.aborted) abort()
  else aborted.addEventListener('abort', abort, { once: true })
  try {
    for await (const answer of agent.answer(turn.agent_message_id!, { signal })) {
      onAnswer(answer)
      await questions.follow(agent, turn.id, answer.isFinal ? [] : answer.questions)
      if (answer.title !== undefined && turn.seq === 1) await rooms.retitle(answer.title)
      if (answer.isFinal) return answer
    }
    signal.throwIfAborted()
    throw new SandboxError('interrupted', 'The agent ended before its answer was complete.', {
      hint: 'Write a message to continue.',
    })
  } finally {
    clearTimeout(timer)
    aborted.removeEventListener('abort', abort)
  }
}
