import { type AgentName, agents } from '@sandkasten/opencode'
import { SandboxError } from '@sandkasten/sdk'
import type { NetworkOptions } from '../../network-choice.ts'

export interface CodeOptions extends NetworkOptions {
  provider?: string
  sandbox?: string
  agent?: AgentName
  model?: string
  modelUrl?: string
  credential?: readonly string[]
  /** Run this prompt without a terminal. `-`: stdin. */
  prompt?: string
  pull?: PullChoice
  new?: boolean
  yes?: boolean
  json?: boolean
}

export type PullChoice = 'branch' | 'patch' | 'no'

/** Refuses what does not go together, before anything is created. */
export function checkOptions({ prompt, json, sandbox, agent, credential = [] }: CodeOptions): void {
  if (json && prompt === undefined)
    throw invalid('--json needs -p.', 'Pass a prompt: sandkasten code -p "fix the tests" --json')
  if (prompt !== undefined && prompt.trim() === '')
    throw invalid('The prompt of -p is empty.', 'Say what to do.')
  if (prompt === undefined && !(process.stdin.isTTY && process.stdout.isTTY))
    throw invalid(
      'There is no terminal for the agent.',
      'Run one prompt instead: sandkasten code -p "fix the tests"',
    )
  if (sandbox === '') throw invalid('--sandbox is empty.', 'Leave it out for the sandbox of this folder.')
  if (agent !== undefined && !Object.hasOwn(agents, agent))
    throw invalid(`There is no agent “${agent}”.`, `Use one of ${Object.keys(agents).join(', ')}.`)
  const wrong = credential.find((name) => !/^[A-Za-z_][A-Za-z0-9_]{0,99}$/.test(name))
  // It may be the key itself, so it is not repeated.
  if (wrong !== undefined)
    throw invalid(
      '--credential takes the name of a variable.',
      'Export the key, and pass its name: ANTHROPIC_API_KEY',
    )
}

export function invalid(message: string, hint: string): SandboxError {
  return new SandboxError('invalid_argument', message, { hint })
}
