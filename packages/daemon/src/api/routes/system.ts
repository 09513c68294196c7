import { z } from 'zod'
import type { Services } from '../../http/services.ts'
import { openapi } from '../openapi.ts'
import { type Route, route } from '../route.ts'

const tag = 'system'

export function systemRoutes(services: Services, all: () => readonly Route[]): Route[] {
  const { metrics, config, version } = services
  return [
    route({
      id: 'healthz',
      method: 'GET',
      path: '/healthz',
      access: 'public',
      tag,
      summary: 'Liveness: the process responds.',
      answer: { description: 'The process responds.', schema: z.object({ status: z.literal('ok') }) },
      handle: async () => ({ status: 'ok' }),
    }),
    route({
      id: 'readyz',
      method: 'GET',
      path: '/readyz',
      access: 'public',
      tag,
      summary: 'Readiness: the database responds. Returns 503 while it does not.',
      answer: { description: 'The daemon is ready.', schema: z.object({ status: z.literal('ready') }) },
      async handle() {
        await services.ready()
        return { status: 'ready' }
      },
    }),
    route({
      id: 'metrics',
      method: 'GET',
      path: '/metrics',
      access: config.metrics === 'open' ? 'public' : 'operator',
      tag,
      summary: 'Get Prometheus metrics of the whole daemon.',
      answer: { description: 'Metrics.', types: ['text/plain'] },
      async handle({ reply }) {
        reply.type('text/plain; version=0.0.4; charset=utf-8')
        return metrics.text()
      },
    }),
    route({
      id: 'openapi',
      method: 'GET',
      path: '/openapi.json',
      access: 'public',
      tag,
      summary: 'Get the OpenAPI document of this API.',
      answer: { description: 'An OpenAPI 3.1 document.', schema: z.record(z.string(), z.unknown()) },
      handle: async () => openapi(all(), version),
    }),
  ]
}
