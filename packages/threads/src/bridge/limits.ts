/** What an agent, or any program in its sandbox, can choose has a limit. */
export const limits = {
  bodyBytes: 256 * 1024,
  /** Of one thread at the same time. Later ones are refused. */
  requests: 16,
  /** A relay that goes on after so many refused requests is ended. */
  refused: 2_000,
  /** One line from a relay: a request as base64, with its headers. */
  lineBytes: 512 * 1024,
  responseBytes: 1024 * 1024,
  pathChars: 4_096,
  noteChars: 1_000,
  questionChars: 1_500,
  choices: 20,
  choiceChars: 80,
  titleChars: 100,
  scheduleChars: 4_000,
  fileBytes: 8 * 1024 * 1024,
  /** The longest wait for a user’s answer. */
  askMs: 3_600_000,
  callMs: 60_000,
  progressMs: 15_000,
  /** Of a relay, in ten minutes. */
  restarts: 5,
} as const
