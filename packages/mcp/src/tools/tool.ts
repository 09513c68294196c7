import type { z } from 'zod'
import type { OpenSandbox, SandboxSource } from '../sources/index.ts'

export type ToolContent =
  | { readonly type: 'text'; readonly text: string }
  | { readonly type: 'image'; readonly data: string; readonly mimeType: string }
  | {
      readonly type: 'resource'
      readonly resource: { readonly uri: string; readonly mimeType: string; readonly blob: string }
    }

export interface ToolResult {
  readonly content: readonly ToolContent[]
  /** For programs; models read the text. */
  readonly facts?: Readonly<Record<string, unknown>>
  readonly isError?: boolean
}

export interface ToolContext {
  readonly source: SandboxSource
  /** Ends the call. */
  readonly signal: AbortSignal
  /** Tells the user what is going on. */
  readonly progress: (message: string) => void
  /** Runs work in the sandbox, which is opened first. */
  use<T>(work: (sandbox: OpenSandbox) => Promise<T>): Promise<T>
  /** Content of a host file, for `upload_file`. Absent: nothing can be uploaded. */
  readonly hostFile?: HostFile
}

/** An open file of the machine on which the agent runs. */
export interface HostFile {
  readonly name: string
  readonly sizeBytes: number
  stream(): AsyncIterable<Uint8Array>
}

/** One tool. The model sees its name, its description and its schema. */
export interface McpTool<Schema extends z.ZodObject = z.ZodObject> {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly input: Schema
  /** It changes nothing in the sandbox, so it may be repeated after a lost connection. */
  readonly readOnly: boolean
  /** The longest time that the work may take, after the sandbox is open. */
  readonly workMs: (input: z.infer<Schema>) => number
  run(input: z.infer<Schema>, context: ToolContext): Promise<ToolResult>
}

export function defineTool<Schema extends z.ZodObject>(tool: McpTool<Schema>): McpTool {
  return tool as unknown as McpTool
}

export function textResult(text: string, facts?: Record<string, unknown>): ToolResult {
  return { content: [{ type: 'text', text }], ...(facts && { facts }) }
}

/** A mistake of the model: the text says how to correct it. */
export function failure(text: string): ToolResult {
  return { content: [{ type: 'text', text: `Error: ${text}` }], isError: true }
}
