/** The limits of everything that a user or an agent chooses. */
export interface ThreadLimits {
  /** One message. Default 64 KiB. */
  readonly messageBytes: number
  /** Messages of one thread without an answer. Default 20. */
  readonly queuedMessages: number
  /** Files of one message. Default 10. */
  readonly attachments: number
  /** One file of a message. Default 25 MiB. */
  readonly attachmentBytes: number
  /** Files of all messages that were not handed over yet. Default 2 GiB. */
  readonly spoolBytes: number
  /** Files that an agent sends during one answer. Default 20. */
  readonly filesPerAnswer: number
  /** One file that an agent sends. Default 8 MiB. */
  readonly fileBytes: number
  /** Messages that an agent has scheduled for one thread. Default 10. */
  readonly schedulesPerThread: number
  /** Threads of one user that are neither archived nor ended. Default 20. */
  readonly threadsPerUser: number
  /** Such threads of one guild. Default 500. */
  readonly threadsPerGuild: number
  /** A patch. Default 1 MiB. */
  readonly diffBytes: number
  /** A git bundle. Default 8 MiB. */
  readonly bundleBytes: number
  /** The output of one shell command. Default 64 KiB. */
  readonly shellBytes: number
  /** One shell command. Default 2 minutes. */
  readonly shellMs: number
}

export const defaultLimits: ThreadLimits = {
  messageBytes: 64 * 1024,
  queuedMessages: 20,
  attachments: 10,
  attachmentBytes: 25 * 1024 ** 2,
  spoolBytes: 2 * 1024 ** 3,
  filesPerAnswer: 20,
  fileBytes: 8 * 1024 ** 2,
  schedulesPerThread: 10,
  threadsPerUser: 20,
  threadsPerGuild: 500,
  diffBytes: 1024 ** 2,
  bundleBytes: 8 * 1024 ** 2,
  shellBytes: 64 * 1024,
  shellMs: 120_000,
}
