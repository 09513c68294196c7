import { SandboxError } from '@sandkasten/sdk'
import { abortable } from '@sandkasten/sdk/provider'
import { z } from 'zod'
import type { Incarnation, SandboxSource } from '../sources/index.ts'
import { failure, limits, type McpTool, type ToolResult, tools } from '../tools/index.ts'
import type { CalledTool, CallToolOptions, ToolCaller } from './caller.ts'
import { errorResult } from './error-result.ts'

/** Runs tools on a sandbox that this process reaches itself. */
export function localCaller(source: SandboxSource): ToolCaller {
  return {
    async call(name, input, options) {
      const tool = tools.find((one) => one.name === name)
      if (!tool) return { result: failure(`There is no tool ${JSON.stringify(name.slice(0, 100))}.`) }
      const checked = tool.input.safeParse(input ?? {})
      if (!checked.success) return { result: failure(z.prettifyError(checked.error).slice(0, 2_000)) }
      return run(tool, checked.data, source, options)
    },
  }
}

/** Opening the sandbox and the work have a time limit each, also if the provider ignores the signal. */
async function run(
  tool: McpTool,
  input: Record<string, unknown>,
  source: SandboxSource,
  { signal: caller, onProgress, hostFile }: CallToolOptions,
): Promise<CalledTool> {
  const deadline = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const limit = (ms: number, what: string) => {
    clearTimeout(timer)
    timer = setTimeout(() => deadline.abort(late(tool, ms, what)), ms)
  }
  const signal = AbortSignal.any([caller, deadline.signal])
  let incarnation: Incarnation | undefined
  const onOpen = (opened: Incarnation) => {
    incarnation = opened
    limit(tool.workMs(input), 'did not end')
  }
  const use = <T>(work: Parameters<typeof source.use<T>>[0]) =>
    source.use(work, { signal, repeatable: tool.readOnly, onProgress, onOpen })
  let result: ToolResult
  try {
    limit(limits.openMs, 'could not begin')
    const running = tool.run(input, { source, signal, progress: onProgress, use, hostFile })
    result = await abortable(running, signal)
  } catch (error) {
    result = await errorResult(deadline.signal.aborted ? deadline.signal.reason : error, source)
  } finally {
    clearTimeout(timer)
  }
  return { result, ...(incarnation && { incarnation }) }
}

function late({ name }: McpTool, ms: number, what: string): SandboxError {
  return new SandboxError('timeout', `${name} ${what} within ${ms / 1000} seconds.`, {
    hint: 'Look at the sandbox with status, then try again.',
  })
}
