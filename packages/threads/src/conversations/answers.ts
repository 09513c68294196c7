import type { SandboxRecord } from '@sandkasten/registry'
import type { AgentAnswer } from '../spec/agent.ts'
import type { Answer, AnswerState, Block, Footer } from '../spec/answer.ts'
import { type TurnRow, toJson } from '../store/index.ts'
import type { Problem } from '../words.ts'

export interface AnswerParts {
  readonly state: AnswerState
  readonly blocks?: readonly Block[]
  readonly error?: Problem
  readonly footer?: Footer
}

export function answerOf(turn: Pick<TurnRow, 'id' | 'thread_id'>, parts: AnswerParts): Answer {
  const { state, blocks = [], error, footer } = parts
  return {
    id: turn.id,
    threadId: turn.thread_id,
    state,
    isFinal: isEnd(state),
    blocks,
    ...(error && { error }),
    ...(footer && { footer }),
  }
}

export function isEnd(state: AnswerState): boolean {
  return state === 'done' || state === 'failed' || state === 'aborted'
}

export function footerOf(
  record: Pick<SandboxRecord, 'name' | 'provider' | 'status'>,
  { model, costUsd }: Pick<AgentAnswer, 'model' | 'costUsd'>,
  durationMs: number,
): Footer {
  const { name: sandbox, provider, status } = record
  return {
    sandbox,
    provider,
    status,
    ...(model !== undefined && { model }),
    ...(costUsd !== undefined && { costUsd }),
    durationMs: Math.max(0, durationMs),
  }
}

const mostStoredBytes = 1024 * 1024

/** The end as it is stored until it is shown. Null: too large, or with files; the agent is asked again. */
export function storedEnding(parts: AnswerParts): string | null {
  if (parts.blocks?.some(({ type }) => type === 'file')) return null
  const text = toJson(parts)
  return Buffer.byteLength(text) <= mostStoredBytes ? text : null
}
