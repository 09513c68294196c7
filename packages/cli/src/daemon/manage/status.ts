import { sizeText } from '../../format.ts'
import { print } from '../../table.ts'
import { connect } from '../client/api.ts'
import type { SessionOptions } from './sessions.ts'

interface Who {
  project_id: string
  scopes: string[]
  isolation: string
  used: { sessions: number; cpu: number; mem_mb: number; disk_mb: number }
}

export async function status(options: SessionOptions): Promise<number> {
  const connection = await connect(options)
  const [who, ready] = await Promise.all([
    connection.json<Who>('GET', '/v1/whoami'),
    connection.json<{ status: string }>('GET', '/readyz'),
  ])
  const { sessions, cpu, mem_mb, disk_mb } = who.used
  const size = (mb: number) => sizeText(mb * 1_048_576)
  print(options.json, { ...ready, ...who }, () =>
    [
      `The daemon is ${ready.status}; its sandboxes are ${who.isolation === 'none' ? 'NOT isolated' : `isolated (${who.isolation})`}.`,
      `This key: project ${who.project_id}, scopes ${who.scopes.join(', ')}.`,
      `In use: ${sessions} session${sessions === 1 ? '' : 's'}, ${cpu} CPU, ${size(mem_mb)} memory, ${size(disk_mb)} disk.`,
    ].join('\n'),
  )
  return 0
}

export async function metrics(options: SessionOptions): Promise<number> {
  const response = await (await connect(options)).request('GET', '/metrics')
  console.log((await response.text()).trimEnd())
  return 0
}
