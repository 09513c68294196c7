import type { Incarnation } from '../sources/index.ts'
import type { HostFile, ToolResult } from '../tools/index.ts'

/** Runs tools: in this process, or through a broker. */
export interface ToolCaller {
  /** Never rejects because of the sandbox: a failure is a result with `isError`. */
  call(name: string, input: unknown, options: CallToolOptions): Promise<CalledTool>
}

export interface CallToolOptions {
  readonly signal: AbortSignal
  readonly onProgress: (message: string) => void
  readonly hostFile?: HostFile
}

export interface CalledTool {
  readonly result: ToolResult
  /** The start of the sandbox in which the tool ran, if it was opened. */
  readonly incarnation?: Incarnation
}
