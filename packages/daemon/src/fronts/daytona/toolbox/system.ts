import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import { notSupported, parsed } from '../../shared/request.ts'
import { usageOf } from '../../shared/usage.ts'
import { type Entry, using } from '../entry.ts'
import { printed } from '../files.ts'

/** Ports and resource usage of the sandbox, and refusals of unsupported parts of the toolbox. */
export function systemRoutes(entry: Entry): void {
  entry.add('GET', '/toolbox/:id/version', 'read', async ({ place }) => ({
    version: place.services.version,
  }))

  entry.add('GET', '/toolbox/:id/port', 'read', async (call) =>
    using(call, async ({ session }) => {
      const all = await call.place.services.ports.list(call.caller, session.id)
      return { ports: all.filter(({ listening }) => listening).map(({ port }) => port) }
    }),
  )
  entry.add('GET', '/toolbox/:id/port/:port/in-use', 'read', async (call) =>
    using(call, async ({ session }) => {
      const all = await call.place.services.ports.list(call.caller, session.id)
      return { isInUse: all.some(({ port, listening }) => listening && String(port) === call.params.port) }
    }),
  )

  entry.add('GET', '/toolbox/:id/system/metrics', 'read', async (call) =>
    using(call, async ({ session, sandbox }) => {
      const used = await usageOf(call.place.services, session)
      const disk = await printed(sandbox, 'df -kP . | tail -n 1')
      const [, total = '0', taken = '0', free = '0'] = disk.trim().split(/\s+/)
      const now = new Date()
      return {
        cpuCount: session.cpu,
        cpuUsedPct: used?.cpuPercent ?? 0,
        memTotal: session.mem_mb * 1_048_576,
        memUsed: used?.memoryBytes ?? 0,
        memCache: 0,
        diskTotal: Number(total) * 1024,
        diskUsed: Number(taken) * 1024,
        diskFree: Number(free) * 1024,
        timestamp: now.toISOString(),
        timestampUnix: Math.floor(now.getTime() / 1000),
      }
    }),
  )

  entry.add('POST', '/toolbox/:id/env', 'exec', async (call) => {
    parsed(z.object({}), call.body)
    throw notSupported('Changing the environment of a running sandbox')
  })
  for (const [area, what] of Object.entries(absent))
    for (const method of ['GET', 'POST', 'DELETE'] as const)
      entry.add(method, `/toolbox/:id/${area}/*`, 'read', async () => {
        throw notSupported(what)
      })
  for (const method of ['GET', 'POST'] as const)
    entry.add(method, '/toolbox/:id/process/interpreter/*', 'read', async () => {
      throw notSupported('An interpreter that keeps its state')
    })
  entry.add('POST', '/toolbox/:id/init', 'exec', async () => {
    throw new SandboxError('forbidden', 'The sandbox is initialised')
  })
}

const absent = { lsp: 'A language server', computeruse: 'A desktop' } as const
