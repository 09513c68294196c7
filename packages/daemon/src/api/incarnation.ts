import { SandboxError } from '@sandkasten/sdk'
import type { FastifyRequest } from 'fastify'

/** Parses `Sandkasten-Incarnation: 2`, which limits a request to that start of the sandbox. */
export function incarnationOf(request: Pick<FastifyRequest, 'headers'>): { incarnation?: number } {
  const header = request.headers['sandkasten-incarnation']
  if (header === undefined) return {}
  if (typeof header === 'string' && /^\d{1,9}$/.test(header)) return { incarnation: Number(header) }
  throw new SandboxError('invalid_argument', 'The header Sandkasten-Incarnation is not a number.', {
    hint: 'Send the session’s `incarnation`, or leave it out.',
  })
}
