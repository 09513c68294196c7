/** What a server in a sandbox can choose has a limit. */
export const limits = {
  textChars: 1_000_000,
  titleChars: 200,
  errorChars: 2_000,
  parts: 2_000,
  /** Of one answer: from the message of the user on. */
  messages: 1_000,
  pageMessages: 50,
  /** Texts of all messages that are followed. */
  totalChars: 32_000_000,
  /** Of a file in an answer, as base64. */
  fileChars: 14_000_000,
  requests: 50,
  questions: 10,
  choices: 50,
  models: 2_000,
  diffFiles: 1_000,
  patchChars: 4_000_000,
  /** Events that arrive while the history is read. */
  waitingEvents: 20_000,
  promptChars: 8_000_000,
} as const
