import { timeText } from '../../format.ts'
import { print, table } from '../../table.ts'
import { type ConnectOptions, connect } from '../client/api.ts'
import { given } from './sessions.ts'

interface Project {
  id: string
  name: string
  quotas: Record<string, number> | null
  created_at: string
}

export interface ProjectOptions extends ConnectOptions {
  json?: boolean
  iso?: boolean
  sessions?: number
  cpus?: number
  memory?: number
  disk?: number
  snapshots?: number
  snapshotDisk?: number
  volumes?: number
  volumeDisk?: number
  default?: boolean
}

export async function createProject(name: string, options: ProjectOptions): Promise<number> {
  const body = given({ name, quotas: quotasOf(options) })
  const project = await (await connect(options)).json<Project>('POST', '/v1/projects', body)
  print(options.json, project, () => project.id)
  return 0
}

export async function listProjects(options: ProjectOptions): Promise<number> {
  const { projects } = await (await connect(options)).json<{ projects: Project[] }>('GET', '/v1/projects')
  print(options.json, projects, () =>
    table(
      ['ID', { title: 'NAME', min: 8 }, { title: 'QUOTAS', min: 10 }, { title: 'CREATED', drop: 1 }],
      projects.map(({ id, name, quotas, created_at }) => [
        id,
        name,
        quotasText(quotas),
        timeText(created_at, options),
      ]),
    ),
  )
  return 0
}

/** Without a quota option, or with `--default`, the quotas of the daemon's configuration apply. */
export async function setQuotas(id: string, options: ProjectOptions): Promise<number> {
  const quotas = options.default ? null : (quotasOf(options) ?? null)
  const path = `/v1/projects/${encodeURIComponent(id)}`
  const project = await (await connect(options)).json<Project>('PATCH', path, { quotas })
  print(options.json, project, () => `${project.name}: ${quotasText(project.quotas)}`)
  return 0
}

function quotasOf(options: ProjectOptions): object | undefined {
  const { sessions, cpus, memory, disk, snapshots, snapshotDisk, volumes, volumeDisk } = options
  const whole = (mb: number | undefined) => (mb === undefined ? undefined : Math.round(mb))
  const quotas = given({
    sessions,
    cpu: cpus,
    mem_mb: whole(memory),
    disk_mb: whole(disk),
    snapshots,
    snapshot_mb: whole(snapshotDisk),
    volumes,
    volume_mb: whole(volumeDisk),
  })
  return Object.keys(quotas).length > 0 ? quotas : undefined
}

function quotasText(quotas: Project['quotas']): string {
  if (quotas === null) return 'from the configuration'
  return Object.entries(quotas)
    .map(([name, value]) => `${name}=${value}`)
    .join(', ')
}
