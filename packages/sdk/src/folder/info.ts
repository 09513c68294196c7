import type { SandboxInfo, SandboxStatus } from '../spec/index.ts'
import { isAlive, type SandboxRecord } from './record.ts'

export async function infoOf(provider: string, record: SandboxRecord): Promise<SandboxInfo> {
  const { sandboxId, name, label, labels, createdAt, expiresAt } = record
  const abandoned = record.status === 'creating' && !(await isAlive(record.creator))
  const status: SandboxStatus = abandoned ? 'failed' : record.status
  return {
    id: `${provider}:${sandboxId}`,
    sandboxId,
    status,
    rawStatus: record.crashed && status === 'stopped' ? 'crashed' : undefined,
    name,
    label,
    labels: { ...labels },
    createdAt: new Date(createdAt),
    expiresAt:
      expiresAt === undefined || (status !== 'running' && status !== 'paused')
        ? undefined
        : new Date(expiresAt),
  }
}

export function damagedInfo(provider: string, sandboxId: string): SandboxInfo {
  return {
    id: `${provider}:${sandboxId}`,
    sandboxId,
    status: 'failed',
    rawStatus: 'damaged',
    labels: {},
  }
}
