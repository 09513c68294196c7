import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { Used } from '../../../sessions/index.ts'
import { needed, parsed } from '../../shared/request.ts'
import { type Call, type Entry, using } from '../entry.ts'

const replaceBody = z.object({
  files: z.array(z.string().min(1)).max(1000),
  pattern: z.string().min(1),
  newValue: z.string(),
})
const mostFileBytes = 16 * 1024 * 1024
const mostFoundBytes = 4 * 1024 * 1024
const searchMs = 60_000

/** Searches names and contents with the sandbox's own `find` and `grep`, so that only matches leave the sandbox. */
export function searchRoutes(entry: Entry): void {
  const at = '/toolbox/:id/files'

  entry.add('GET', `${at}/search`, 'read', async (call) => {
    const [folder, pattern] = [needed(call, 'path'), needed(call, 'pattern')]
    return using(call, async ({ sandbox }) => {
      await sandbox.files.stat(folder)
      const stdout = await found(call, sandbox, 'find', [operand(folder), '-name', pattern, '-print0'])
      return { files: stdout.split('\0').filter((name) => name !== '') }
    })
  })

  entry.add('GET', `${at}/find`, 'read', async (call) => {
    const [folder, pattern] = [needed(call, 'path'), needed(call, 'pattern')]
    return using(call, async ({ sandbox }) => {
      await sandbox.files.stat(folder)
      // -Z ends file names with NUL, because names may hold anything else. -I skips binary files.
      return matchesOf(await found(call, sandbox, 'grep', ['-rnIZs', '-F', '-e', pattern, '--', folder]))
    })
  })

  entry.add('POST', `${at}/replace`, 'exec', async (call) => {
    const body = parsed(replaceBody, call.body)
    return using(call, ({ sandbox }) =>
      Promise.all(body.files.map((file) => replaced(call, sandbox, file, body))),
    )
  })
}

/**
 * Returns the complete output of a search. Unreadable files are skipped, as the vendor does: find then exits with 1, and
 * `grep -s` with 2 and no message.
 */
async function found(
  call: Call,
  sandbox: Used['sandbox'],
  cmd: 'find' | 'grep',
  args: readonly string[],
): Promise<string> {
  const { exitCode, stdout, stderr, timedOut, truncated } = await sandbox.runCommand({
    cmd,
    args,
    timeoutMs: searchMs,
    maxOutputBytes: mostFoundBytes,
    signal: call.signal,
  })
  const hint = 'Search in a smaller folder, or for less.'
  if (timedOut) throw new SandboxError('timeout', `the search took more than ${searchMs / 1000} s`, { hint })
  if (truncated)
    throw new SandboxError('too_large', 'the search found more than a response can hold', { hint })
  if (cmd === 'find' ? exitCode > 1 : exitCode > 2 || stderr !== '')
    throw new SandboxError('provider_error', `${cmd} failed (${exitCode}): ${stderr.trim().slice(-300)}`)
  return stdout
}

/** `find` would read a leading dash as an option. */
function operand(path: string): string {
  return path.startsWith('-') ? `./${path}` : path
}

function matchesOf(output: string): Array<{ file: string; line: number; content: string }> {
  return output.split('\n').flatMap((text) => {
    const [, file, line, content] = /^([^\0]+)\0(\d+):(.*)$/s.exec(text) ?? []
    return file === undefined ? [] : [{ file, line: Number(line), content: content! }]
  })
}

async function replaced(
  call: Call,
  sandbox: Used['sandbox'],
  file: string,
  { pattern, newValue }: z.infer<typeof replaceBody>,
) {
  try {
    const content = await sandbox.files.readFile(file, { maxBytes: mostFileBytes, signal: call.signal })
    const text = content.toString('utf8')
    if (!Buffer.from(text).equals(content))
      throw new SandboxError('invalid_argument', `${file} is not a text file`)
    const changed = text.replaceAll(pattern, () => newValue)
    if (changed !== text) await sandbox.files.writeFile(file, changed, { signal: call.signal })
    return { file, success: true }
  } catch (error) {
    if (!SandboxError.is(error) || error.status >= 500) throw error
    return { file, success: false, error: error.message }
  }
}
