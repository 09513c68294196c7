import { type Answer, fieldsOf, isAnswer, type Request, refusal } from './answers.ts'
import type { Machine, Sandboxes } from './sandboxes.ts'

export interface ControlPlaneOptions {
  readonly apiKey: string
  readonly templates: readonly string[]
  readonly sandboxes: Sandboxes
  hostOf(id: string): string
}

/** `/v1/sandboxes…` and `/health`, with the API key. */
export async function controlPlane(request: Request, options: ControlPlaneOptions): Promise<Answer> {
  const { method, path, headers } = request
  if (path === '/health') return { status: 200, body: { status: 'ok', version: 'double' } }
  if (headers['x-api-key'] !== options.apiKey) return refusal(401, 'UNAUTHORIZED', 'Invalid API key')
  const [, id, action] = /^\/v1\/sandboxes(?:\/([\w-]+)(?:\/([a-z/]+))?)?$/.exec(path) ?? [path]
  const line = `${method} ${action ?? (id === undefined ? 'all' : 'one')}`
  if (!path.startsWith('/v1/sandboxes')) return refusal(404, 'NOT_FOUND', 'Not found')
  if (line === 'POST all') return create(request, options)
  if (line === 'GET all') return list(request, options)
  const machine = options.sandboxes.get(id ?? '')
  if (!machine) return refusal(404, 'SANDBOX_NOT_FOUND', 'Sandbox not found')
  switch (line) {
    case 'GET one':
      return { status: 200, body: view(machine, options) }
    case 'DELETE one':
      await options.sandboxes.remove(machine)
      return { status: 204 }
    case 'POST pause':
      if (machine.status !== 'running') return refusal(409, 'INVALID_STATE', 'Sandbox is not running')
      await machine.handle.pause()
      machine.status = 'paused'
      return { status: 200, body: { status: machine.status } }
    case 'POST resume':
      if (machine.status !== 'paused') return refusal(409, 'INVALID_STATE', 'Sandbox is not paused')
      await machine.handle.resume()
      machine.status = 'running'
      return { status: 200, body: { status: machine.status } }
    case 'POST token/refresh':
      if (machine.status === 'stopped') return refusal(410, 'SANDBOX_EXPIRED', 'Sandbox has expired')
      return { status: 200, body: options.sandboxes.newToken(machine) }
    case 'PUT timeout': {
      const fields = fieldsOf(request.body, { timeout_seconds: 'number' })
      if (isAnswer(fields)) return fields
      options.sandboxes.setTimeout(machine, fields.timeout_seconds ?? 0)
      return { status: 200, body: view(machine, options) }
    }
  }
  return refusal(405, 'METHOD_NOT_ALLOWED', 'Method not allowed')
}

async function create({ body }: Request, options: ControlPlaneOptions): Promise<Answer> {
  const fields = fieldsOf(body, {
    template_name: 'string',
    template_id: 'string',
    region: 'string',
    timeout_seconds: 'number',
    internet_access: 'boolean',
    env_vars: 'env',
  })
  if (isAnswer(fields)) return fields
  const template = fields.template_name ?? fields.template_id ?? ''
  if (!options.templates.includes(template))
    return refusal(404, 'NOT_FOUND', `Template ${template} not found`)
  const {
    timeout_seconds: timeoutSeconds,
    internet_access: internetAccess = true,
    env_vars: env = {},
  } = fields
  if (timeoutSeconds !== undefined && !(Number.isInteger(timeoutSeconds) && timeoutSeconds > 0))
    return refusal(400, 'INVALID_REQUEST', 'timeout_seconds must be a positive integer')
  const machine = await options.sandboxes.create({ template, internetAccess, timeoutSeconds, env })
  return { status: 201, body: { ...view(machine, options), ...options.sandboxes.newToken(machine) } }
}

function list({ query }: Request, options: ControlPlaneOptions): Answer {
  const status = query.get('status')
  const limit = Number(query.get('limit') ?? 100)
  const all = options.sandboxes.all.filter((machine) => status === null || machine.status === status)
  const start = query.get('cursor') === null ? 0 : all.findIndex(({ id }) => id === query.get('cursor')) + 1
  const page = all.slice(start, start + limit)
  const more = start + limit < all.length
  const next = more ? { next_cursor: page.at(-1)?.id } : {}
  return { status: 200, body: { data: page.map((one) => view(one, options)), has_more: more, ...next } }
}

function view(machine: Machine, { hostOf }: ControlPlaneOptions) {
  const view = {
    id: machine.id,
    template_name: machine.template,
    organization_id: 1,
    region: 'eu-1',
    status: machine.status,
    public_host: hostOf(machine.id),
    internet_access: machine.internetAccess,
    created_at: machine.createdAt.toISOString(),
    expires_at: machine.expiresAt?.toISOString(),
  }
  // Reported once: the next look finds it running.
  if (machine.status === 'creating') machine.status = 'running'
  return view
}
