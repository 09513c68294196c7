import { spawn } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { McpPlace } from './place.ts'

const programs = path.resolve(import.meta.dirname, '../../node_modules/.bin')

export interface ProgramOptions {
  readonly place: McpPlace
  /** The working directory. */
  readonly project: string
  readonly env: Readonly<Record<string, string>>
}

/** Runs a real agent at home, with the home of the test. */
export function runAgentProgram(
  program: string,
  args: readonly string[],
  { place, project, env }: ProgramOptions,
): Promise<{ code: number | null; output: string }> {
  return new Promise((resolve) => {
    const child = spawn(path.join(programs, program), args, {
      cwd: project,
      env: { PATH: process.env.PATH, HOME: place.home, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: 90_000,
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    child.once('close', (code) => resolve({ code, output }))
  })
}

export function claudeEnv(url: string): Record<string, string> {
  return {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: 'sk-ant-test',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
  }
}

/** opencode with the scripted model, and without downloads. */
export async function opencodeEnv(
  { home }: McpPlace,
  url: string,
  config: object = {},
): Promise<Record<string, string>> {
  const models = path.join(home, 'models.json')
  await writeFile(models, '{}')
  const packages = path.join(home, '.config/opencode')
  await mkdir(path.join(packages, 'node_modules'), { recursive: true })
  // It would install its plugin package otherwise.
  const lock = { packages: { '': { dependencies: { '@opencode-ai/plugin': '*' } } } }
  await writeFile(path.join(packages, 'package-lock.json'), JSON.stringify(lock))
  const content = {
    autoupdate: false,
    share: 'disabled',
    model: 'local/m',
    small_model: 'local/m',
    enabled_providers: ['local'],
    provider: {
      local: {
        npm: '@ai-sdk/openai-compatible',
        options: { baseURL: `${url}/v1`, apiKey: 'sk-local' },
        models: { m: { tool_call: true, limit: { context: 128_000, output: 8_192 } } },
      },
    },
    ...config,
  }
  return {
    OPENCODE_CONFIG_CONTENT: JSON.stringify(content),
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    OPENCODE_MODELS_PATH: models,
  }
}
