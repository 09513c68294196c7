/** Discord's error codes that the twin uses: code, HTTP status and text. */
const ERRORS = {
  general: [0, 400, '400: Bad Request'],
  unauthorized: [0, 401, '401: Unauthorized'],
  notFound: [0, 404, '404: Not Found'],
  methodNotAllowed: [0, 405, '405: Method Not Allowed'],
  unknownApplication: [10002, 404, 'Unknown Application'],
  unknownChannel: [10003, 404, 'Unknown Channel'],
  unknownGuild: [10004, 404, 'Unknown Guild'],
  unknownMember: [10007, 404, 'Unknown Member'],
  unknownMessage: [10008, 404, 'Unknown Message'],
  unknownRole: [10011, 404, 'Unknown Role'],
  unknownUser: [10013, 404, 'Unknown User'],
  unknownEmoji: [10014, 400, 'Unknown Emoji'],
  unknownWebhook: [10015, 404, 'Unknown Webhook'],
  unknownInteraction: [10062, 404, 'Unknown interaction'],
  unknownCommand: [10063, 404, 'Unknown application command'],
  tooLarge: [40005, 413, 'Request entity too large'],
  alreadyAcknowledged: [40060, 400, 'Interaction has already been acknowledged.'],
  missingAccess: [50001, 403, 'Missing Access'],
  editOfOthersMessage: [50005, 403, 'Cannot edit a message authored by another user'],
  emptyMessage: [50006, 400, 'Cannot send an empty message'],
  missingPermissions: [50013, 403, 'Missing Permissions'],
  wrongChannelType: [50024, 400, 'Cannot execute action on this channel type'],
  invalidWebhookToken: [50027, 401, 'Invalid Webhook Token'],
  invalidForm: [50035, 400, 'Invalid Form Body'],
  invalidJson: [50109, 400, 'The request body contains invalid JSON.'],
  threadIsArchived: [50083, 400, 'Thread is archived'],
  threadExists: [160004, 400, 'A thread has already been created for this message'],
} as const satisfies Record<string, readonly [number, number, string]>

export type DiscordErrorName = keyof typeof ERRORS

/** One leaf of the `errors` tree of code 50035. */
export interface FormError {
  readonly code: string
  readonly message: string
}

/** An answer with an error, in Discord's JSON shape. */
export class DiscordError extends Error {
  override readonly name = 'DiscordError'
  readonly code: number
  readonly status: number
  readonly #errors: object | undefined

  constructor(name: DiscordErrorName, errors?: object) {
    const [code, status, message] = ERRORS[name]
    super(message)
    this.code = code
    this.status = status
    this.#errors = errors
  }

  toJSON(): object {
    return { message: this.message, code: this.code, ...(this.#errors && { errors: this.#errors }) }
  }
}
