/** What a caller or a sandbox can choose has a limit. docs/mcp.md lists these numbers. */
export const limits = {
  /** Linux takes at most 128 KiB as one argument. */
  cmdChars: 100_000,
  pathChars: 4_096,
  /** Content of one write or edit, in characters. */
  contentChars: 4_000_000,
  /** Searching a longer text in a file can take seconds. */
  oldStringChars: 100_000,
  /** A file that is edited. */
  editBytes: 8 * 1024 * 1024,
  /**
   * Text of one result. Claude Code refuses more than 25,000 tokens, and a token has at least one byte. The program
   * opencode keeps only the beginning of more than 2,000 lines or 50 KiB, and refers to a file on the wrong machine.
   */
  resultBytes: 24_000,
  resultLines: 1_800,
  timeoutMs: 120_000,
  maxTimeoutMs: 3_600_000,
  /** The longest wait of `read_process`. */
  maxWaitMs: 60_000,
  /** What `read_process` reads at once. */
  readBytes: 16 * 1024 * 1024,
  /** The rest of an output is dropped, and not saved. */
  savedBytes: 256 * 1024 * 1024,
  /** Saved outputs in a sandbox; the oldest are removed. */
  savedOutputs: 32,
  imageBytes: 3 * 1024 * 1024,
  binaryBytes: 1024 * 1024,
  entries: 1_000,
  searchMs: 20_000,
  searchBytes: 4 * 1024 * 1024,
  searchResults: 100,
  maxSearchResults: 1_000,
  searchLineChars: 300,
  processes: 50,
  uploadBytes: 1024 * 1024 * 1024,
  /** Calls that do not run a command. */
  callMs: 60_000,
  /** Before a call begins, its sandbox may have to be started, or restored from a snapshot. */
  openMs: 300_000,
} as const
