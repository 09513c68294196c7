import type { Hold } from '@sandkasten/registry'
import { placeholder } from '@sandkasten/sdk'
import { directoryOf } from './place.ts'
import type { AgentSettings } from './settings.ts'

const mostBytes = 4 * 1024 ** 2

/**
 * Answers what Claude Code asks on a new machine. It asks Anthropic's services before that, which a sandbox with
 * another model does not reach. Keeps everything that its file in the sandbox has already.
 */
export async function prepareClaude(hold: Hold, { credentials }: AgentSettings): Promise<void> {
  const { handle } = hold
  const { stdout: home } = await handle.runCommand({
    cmd: 'sh',
    args: ['-c', 'printf %s "$HOME"'],
    maxOutputBytes: 4096,
  })
  const file = `${home}/.claude.json`
  const found = await handle.files.stat(file).catch(() => undefined)
  if (found !== undefined && found.size > mostBytes) return
  const before =
    found === undefined ? {} : parsed(new TextDecoder().decode(await handle.files.readFile(file)))
  if (before === undefined) return
  const directory = directoryOf(hold)
  const projects = asObject(before.projects)
  // The key itself is not written to the disk, so Claude Code asks about one that it can read.
  const placeholders = credentials.flatMap((one) =>
    one.secret === undefined ? [] : [placeholder(one.secret).slice(-20)],
  )
  const next = {
    theme: 'dark',
    ...before,
    hasCompletedOnboarding: true,
    projects: {
      ...projects,
      [directory]: { ...asObject(projects[directory]), hasTrustDialogAccepted: true },
    },
    ...(placeholders.length === 0 ? {} : { customApiKeyResponses: { approved: placeholders, rejected: [] } }),
  }
  await handle.files.writeFile(file, JSON.stringify(next, undefined, 2))
}

/** Undefined: not ours to repair. */
function parsed(text: string): Record<string, unknown> | undefined {
  try {
    return asObject(JSON.parse(text))
  } catch {
    return undefined
  }
}

function asObject(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : {}
}
