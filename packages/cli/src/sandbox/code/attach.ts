import { agents } from '@sandkasten/opencode'
import { SandboxError, supports } from '@sandkasten/sdk'
import { attachTerminal } from '../../terminal.ts'
import { prepareClaude } from './claude-home.ts'
import { directoryOf, type Place } from './place.ts'
import type { ReadyAgent } from './server.ts'
import { programEnv } from './settings.ts'

/** The agent's own interface on a terminal of the sandbox, connected to ours. Returns its exit code. */
export async function attachAgent(
  { hold }: Place,
  agent: ReadyAgent,
  sessionId: string | undefined,
): Promise<number> {
  const { handle } = hold
  if (!supports(handle, 'terminal')) throw noTerminals(handle.provider)
  const { command, env } = agent.server ? clientOf(agent, sessionId) : programOf(agent, sessionId)
  if (agent.name === 'claude') await prepareClaude(hold, agent.settings)
  const { TERM = 'xterm-256color', COLORTERM } = process.env
  let isOver = false
  try {
    const code = await attachTerminal(handle, command, {
      workdir: directoryOf(hold),
      env: { TERM, ...(COLORTERM === undefined ? {} : { COLORTERM }), ...env },
      interactive: true,
      keepsInput: true,
    })
    isOver = code === 0
    return code
  } finally {
    // A program that was cut off leaves its modes in our terminal: its screen, its mouse, its keys.
    if (!isOver && process.stdout.isTTY) process.stdout.write(resetModes)
  }
}

export function noTerminals(provider: string): SandboxError {
  return new SandboxError('unsupported', `The provider ${provider} has no terminals.`, {
    hint: 'Run one prompt instead: sandkasten code -p "fix the tests"',
  })
}

interface Program {
  readonly command: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
}

// The program is where the bootstrap has put it, or where it has found it.
const onPath = 'PATH="$HOME/.local/bin:$HOME/.opencode/bin:$PATH"; program=$1; shift; exec "$program" "$@"'

/** The password is in the environment: arguments are visible to every program of the sandbox. */
function clientOf({ name, server }: ReadyAgent, sessionId: string | undefined): Program {
  const { program, server: spec } = agents[name as 'opencode']
  const { port, directory, password } = server!
  const args = ['attach', `http://127.0.0.1:${port}`, '--dir', directory]
  return {
    command: [
      'sh',
      '-c',
      onPath,
      'sh',
      program,
      ...args,
      ...(sessionId === undefined ? [] : ['--session', sessionId]),
    ],
    env: {
      [spec!.passwordVariable]: password,
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
    },
  }
}

function programOf({ name, installed, settings }: ReadyAgent, sessionId: string | undefined): Program {
  const { model } = settings
  const options = {
    ...(model === undefined ? {} : { model }),
    ...(sessionId === undefined ? {} : { sessionId }),
  }
  return {
    command: [installed!.binary, ...agents[name].interactiveArgs(options)],
    env: programEnv(name, settings),
  }
}

const resetModes =
  '\x1b[?1049l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?2026l\x1b[<u\x1b[?25h\x1b[0m\r\n'
