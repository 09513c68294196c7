import { SandboxError } from '@sandkasten/sdk'
import { type Answer, fieldsOf, isAnswer, type Request, refusal } from './answers.ts'
import type { Machine } from './sandboxes.ts'

/** The vendor's agent in one sandbox, with the sandbox's token. */
export async function agent(request: Request, machine: Machine | undefined): Promise<Answer> {
  // The gateway in front of the agent does not reach it.
  if (!machine || machine.status === 'stopped' || machine.status === 'paused')
    return { status: 502, html: '<html>Bad gateway</html>' }
  const expiresAt = machine.tokens.get(request.headers.authorization?.replace(/^Bearer /, '') ?? '')
  if (expiresAt === undefined) return refusal(401, 'TOKEN_INVALID', 'The token is not valid')
  if (expiresAt < Date.now()) return refusal(401, 'TOKEN_EXPIRED', 'The token is not valid')
  try {
    return await answered(request, machine)
  } catch (error) {
    if (!SandboxError.is(error)) throw error
    if (error.code === 'file_not_found') return refusal(404, 'FILE_NOT_FOUND', 'File not found')
    if (error.code === 'permission_denied') return refusal(403, 'PERMISSION_DENIED', 'Permission denied')
    return refusal(500, 'COMMAND_FAILED', error.code)
  }
}

async function answered({ method, path, query, body }: Request, machine: Machine): Promise<Answer> {
  const { handle, env } = machine
  const asked = query.get('path') ?? ''
  switch (`${method} ${path}`) {
    case 'POST /commands/run': {
      const fields = fieldsOf(body, commandFields)
      return isAnswer(fields) ? fields : run(machine, fields)
    }
    case 'GET /env':
      return { status: 200, body: { env_vars: Object.fromEntries(env) } }
    case 'PATCH /env': {
      const fields = fieldsOf(body, { env_vars: 'env', merge: 'boolean' })
      if (isAnswer(fields)) return fields
      for (const [name, value] of Object.entries(fields.env_vars ?? {})) env.set(name, value)
      return { status: 200, body: { env_vars: Object.fromEntries(env) } }
    }
    case 'GET /files/read': {
      const content = await handle.files.readFile(asked, 'utf8')
      return { status: 200, body: { content, path: asked, size: Buffer.byteLength(content) } }
    }
    case 'GET /files/download':
      return { status: 200, bytes: await handle.files.readFile(asked) }
    case 'GET /files/list': {
      const files = (await handle.files.list(asked)).map(({ name, type, size, mtimeMs }) => ({
        name,
        path: `${asked}/${name}`,
        size,
        is_dir: type === 'directory',
        modified: new Date(mtimeMs ?? 0).toISOString(),
      }))
      return { status: 200, body: { files, path: asked } }
    }
    case 'GET /files/exists':
      return { status: 200, body: { exists: await handle.files.exists(asked), path: asked } }
    case 'DELETE /files/remove':
      await handle.files.rm(asked, { recursive: true })
      return { status: 200, body: { path: asked, success: true } }
    case 'POST /files/mkdir': {
      const fields = fieldsOf(body, { path: 'string' })
      if (isAnswer(fields)) return fields
      await handle.files.mkdir(fields.path ?? '', { recursive: true })
      return { status: 200, body: { path: fields.path ?? '', success: true } }
    }
    case 'POST /files/write': {
      const fields = fieldsOf(body, {
        path: 'string',
        content: 'string',
        encoding: 'string',
        overwrite: 'boolean',
        mode: 'string',
      })
      if (isAnswer(fields)) return fields
      const content = Buffer.from(fields.content ?? '', fields.encoding === 'base64' ? 'base64' : 'utf8')
      const mode = Number.parseInt(fields.mode ?? '0644', 8)
      await handle.files.writeFile(fields.path ?? '', content, { mode })
      return { status: 200, body: { path: fields.path ?? '', success: true } }
    }
  }
  return refusal(405, 'METHOD_NOT_ALLOWED', 'Method not allowed')
}

const commandFields = {
  command: 'string',
  args: 'strings',
  timeout: 'number',
  workdir: 'string',
  env: 'env',
} as const

type CommandFields = Exclude<ReturnType<typeof fieldsOf<typeof commandFields>>, Answer>

/** All output at the end, as text. Bytes that are no UTF-8 are replaced. */
async function run({ handle, env }: Machine, fields: CommandFields): Promise<Answer> {
  const { command = 'bash', args = [], timeout = 30, workdir = '/workspace' } = fields
  const result = await handle.runCommand({
    cmd: command,
    args,
    cwd: workdir,
    env: { ...Object.fromEntries(env), ...fields.env },
    timeoutMs: timeout * 1000,
    maxOutputBytes: 32 * 1024 * 1024,
  })
  const { exitCode, stdout, stderr, durationMs } = result
  if (result.timedOut) return refusal(408, 'EXECUTION_TIMEOUT', 'The command took too long')
  return {
    status: 200,
    body: {
      success: exitCode === 0,
      stdout,
      stderr,
      exit_code: exitCode,
      execution_time: durationMs / 1000,
      command,
      timestamp: new Date().toISOString(),
    },
  }
}
