import { SandboxError } from '@sandkasten/sdk'
import type { CreateRequest } from '../../sessions/index.ts'
import { notSupported } from '../shared/request.ts'

/** Parses quantities of Kubernetes, such as `{cpu: '500m', memory: '2Gi'}`. */
export function limitsOf(given: Readonly<Record<string, string>>): NonNullable<CreateRequest['limits']> {
  const limits: NonNullable<CreateRequest['limits']> = {}
  for (const [name, text] of Object.entries(given)) {
    if (name === 'cpu') limits.cpu = amount(name, text)
    else if (name === 'memory') limits.memoryMb = megabytes(name, text)
    else if (name === 'disk' || name === 'ephemeral-storage') limits.diskMb = megabytes(name, text)
    else throw notSupported(`The resource ${name}`)
  }
  return limits
}

function megabytes(name: string, text: string): number {
  return Math.max(1, Math.ceil(amount(name, text) / 1_048_576))
}

function amount(name: string, text: string): number {
  const [, number, unit = ''] = /^(\d{1,15}(?:\.\d{1,9})?)(m|[kMGT]|[KMGT]i)?$/.exec(text.trim()) ?? []
  const value = Number(number) * units[unit]!
  if (number !== undefined && value > 0) return value
  throw new SandboxError('invalid_argument', `resourceLimits.${name} is not a quantity: ${text}.`, {
    hint: 'Use for example 500m or 2 for cpu, and 512Mi or 2Gi for memory.',
  })
}

const units: Readonly<Record<string, number>> = {
  '': 1,
  m: 0.001,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
}
