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

  /** The bot's answer, or the message of the component; `undefined` when there is none. */
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

  /** @internal Waits for the acknowledgement, as long as Discord does. */
  async acknowledged(): Promise<this> {
    return await waitFor(
      this.#core,
      `the acknowledgement of ${this.#what}`,
      () => {
        if (isUnanswered(this.#core, this.#record)) {
          throw new Error(
            `The application did not respond to ${this.#what} within ${this.#core.limits.acknowledgeMs} ms`,
          )
        }
        return this.#record.callbackType !== undefined && this
      },
      () => '(no answer)',
      { timeoutMs: this.#core.limits.acknowledgeMs + 5000, channelId: this.#record.channelId },
    )
  }
}
