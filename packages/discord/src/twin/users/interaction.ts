import type { Core } from '../core.ts'
import { CallbackType, isUnanswered } from '../state/interactions.ts'
import type { InteractionRecord, Modal } from '../state/world.ts'
import { TwinMessage } from './message.ts'
import { type WaitOptions, waitFor } from './wait.ts'

/** What a user did, and how the bot has answered. */
export class TwinInteraction {
  readonly id: string
  readonly #core: Core
  readonly #record: InteractionRecord
  readonly #what: string

  constructor(core: Core, record: InteractionRecord, what: string) {
    this.#core = core
    this.#record = record
    this.#what = what
    this.id = record.id
  }

  /** How the bot has acknowledged; `undefined` before. */
  get acknowledgement(): keyof typeof CallbackType | undefined {
    const entry = Object.entries(CallbackType).find(([, type]) => type === this.#record.callbackType)
    return entry?.[0] as keyof typeof CallbackType | undefined
  }

  /** The modal that the bot has opened. */
  get modal(): Modal | undefined {
    return this.#record.modal
  }

  get choices(): NonNullable<InteractionRecord['choices']> {
    return this.#record.choices ?? []
  }

  /** The bot's answer, or the message of the component; `undefined` before the answer. */
  get reply(): TwinMessage | undefined {
    const { originalMessageId, channelId } = this.#record
    const message =
      originalMessageId && this.#core.world.channels.get(channelId)?.messages.get(originalMessageId)
    return message ? new TwinMessage(this.#core, message) : undefined
  }

  /** Follow-ups and the answer, in their order. */
  get messages(): TwinMessage[] {
    const channel = this.#core.world.channels.get(this.#record.channelId)
    return [...(channel?.messages.values() ?? [])]
      .filter(({ interactionId }) => interactionId === this.id)
      .map((message) => new TwinMessage(this.#core, message))
  }

  /** Waits for the answer, after "is thinking". */
  async waitForReply(options?: WaitOptions): Promise<TwinMessage> {
    return await waitFor(
      this.#core,
      `the answer to ${this.#what}`,
      () => {
        const { reply } = this
        return reply && !reply.isThinking && reply
      },
      () => String(this.reply ?? '(no answer)'),
      { ...options, channelId: this.#record.channelId },
    )
  }
}

/** Waits until the bot has acknowledged, as long as Discord does. */
export async function waitForAcknowledgement(
  core: Core,
  record: InteractionRecord,
  what: string,
): Promise<void> {
  const { acknowledgeMs } = core.limits
  await waitFor(
    core,
    `the acknowledgement of ${what}`,
    () => {
      if (isUnanswered(core, record)) {
        throw new Error(`The application did not respond to ${what} within ${acknowledgeMs} ms`)
      }
      return record.callbackType !== undefined
    },
    () => '(no answer)',
    { timeoutMs: acknowledgeMs + 5000, channelId: record.channelId },
  )
}
