import { createInterface } from 'node:readline'
import type { HelperLine, HelperRequest } from '@sandkasten/opencode/plugin'
import { SandboxError } from '@sandkasten/sdk'
import { surviveOutputFailures } from '../../output.ts'
import { registryPlace } from '../../registry-place.ts'
import { endings } from '../../steer.ts'
import { openHere } from '../open.ts'
import { AllWorkspaces } from './all-workspaces.ts'
import { invalid } from './options.ts'

/** Serves the plugin of opencode, over lines of JSON. Ends with its stdin, or by a signal. */
export async function workspaces(): Promise<number> {
  if (process.stdin.isTTY)
    throw invalid('opencode’s plugin starts this command.', 'Add @sandkasten/opencode to opencode’s plugins.')
  surviveOutputFailures()
  const ending = new AbortController()
  for (const signal of endings) process.on(signal, () => ending.abort())
  await using opened = await openHere()
  const { data: dataDir } = await registryPlace()
  const { signal } = ending
  const send = (line: HelperLine) => void process.stdout.write(`${JSON.stringify(line)}\n`)
  // Promises of the registry, such as an idle stop, are kept meanwhile.
  const working = opened.registry.work({ signal }).catch(() => {})
  const notice = (text: string, level: 'info' | 'warning' | 'error') => send({ notice: text, level })
  const calls = new Set<Promise<void>>()
  {
    await using all = new AllWorkspaces({ opened, dataDir, signal, notice })
    const lines = createInterface({ input: process.stdin })
    lines.on('line', (line) => {
      const call = answer(all, JSON.parse(line) as HelperRequest).then(send)
      calls.add(call)
      void call.finally(() => calls.delete(call))
    })
    lines.once('close', () => ending.abort())
    await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()))
    lines.close()
    // A create that was cut off cleans up.
    await Promise.all(calls)
  }
  await working
  return 0
}

async function answer(all: AllWorkspaces, { id, method, params }: HelperRequest): Promise<HelperLine> {
  try {
    const call = all[method] as (params: unknown) => Promise<unknown>
    return { id, result: await call.call(all, params) }
  } catch (error) {
    if (!SandboxError.is(error)) return { id, error: { message: (error as Error).message } }
    return { id, error: { message: error.message, hint: error.hints.cli } }
  }
}
