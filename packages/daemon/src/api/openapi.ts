import { z } from 'zod'
import { problemSchema, problemType } from '../http/problems.ts'
import type { Route } from './route.ts'

export function openapi(routes: readonly Route[], version: string): Record<string, unknown> {
  const schemas: Record<string, unknown> = { Problem: jsonSchema(problemSchema, 'output', {}) }
  const paths: Record<string, Record<string, unknown>> = {}
  for (const route of routes) {
    paths[route.path] ??= {}
    paths[route.path]![route.method.toLowerCase()] = operation(route, schemas)
  }
  return {
    openapi: '3.1.0',
    info: { title: 'Sandkasten', version, description: 'Sandboxes for AI agents, over HTTP.' },
    paths: Object.fromEntries(Object.entries(paths).sort(([a], [b]) => (a < b ? -1 : 1))),
    components: {
      schemas: Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => (a < b ? -1 : 1))),
      securitySchemes: { key: { type: 'http', scheme: 'bearer' } },
    },
  }
}

function operation(route: Route, schemas: Record<string, unknown>): Record<string, unknown> {
  const { status = 200, description, schema, types = [] } = route.answer
  const content: Record<string, unknown> = {}
  if (schema) content['application/json'] = { schema: jsonSchema(schema, 'output', schemas) }
  for (const type of types) content[type] = { schema: { type: 'string' } }
  return {
    operationId: route.id,
    summary: route.summary,
    tags: [route.tag],
    security: route.access === 'public' ? [] : [{ key: [] }],
    'x-scope': route.access,
    parameters:
      route.params || route.query
        ? [...parameters('path', route.params, schemas), ...parameters('query', route.query, schemas)]
        : undefined,
    requestBody: route.body && requestBody(route.body, schemas),
    responses: {
      [status]: { description, content: Object.keys(content).length > 0 ? content : undefined },
      default: {
        description: 'A problem.',
        content: { [problemType]: { schema: { $ref: '#/components/schemas/Problem' } } },
      },
    },
  }
}

function parameters(
  place: 'path' | 'query',
  schema: z.ZodObject | undefined,
  schemas: Record<string, unknown>,
): unknown[] {
  return Object.entries(schema?.shape ?? {}).map(([name, inner]) => {
    const { description, ...rest } = jsonSchema(inner as z.ZodType, 'input', schemas) as {
      description?: string
    }
    return {
      name,
      in: place,
      required: place === 'path' || !(inner as z.ZodType).safeParse(undefined).success,
      description,
      schema: rest,
    }
  })
}

function requestBody(body: z.ZodType | 'stream', schemas: Record<string, unknown>): Record<string, unknown> {
  if (body === 'stream')
    return {
      required: true,
      content: { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } },
    }
  const required = !body.safeParse({}).success
  return { required, content: { 'application/json': { schema: jsonSchema(body, 'input', schemas) } } }
}

/** Moves named schemas into `components` and refers to them. */
function jsonSchema(
  schema: z.ZodType,
  io: 'input' | 'output',
  schemas: Record<string, unknown>,
): Record<string, unknown> {
  const {
    $schema: _,
    $defs,
    ...rest
  } = z.toJSONSchema(schema, { io, unrepresentable: 'any' }) as Record<string, unknown>
  for (const [name, definition] of Object.entries(($defs ?? {}) as Record<string, unknown>))
    schemas[name] ??= moved(withoutId(definition))
  if (typeof rest.id === 'string') {
    schemas[rest.id] ??= moved(withoutId(rest))
    return { $ref: `#/components/schemas/${rest.id}` }
  }
  return moved(rest) as Record<string, unknown>
}

function withoutId(definition: unknown): unknown {
  const { id: _, ...rest } = definition as Record<string, unknown>
  return rest
}

function moved(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value).replaceAll('"#/$defs/', '"#/components/schemas/'))
}
