/** Runs ways, and finds out which of them lead out. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Reached } from '../world/records.ts'
import type { Way } from './way.ts'

const file = (name: string) => readFileSync(join(import.meta.dirname, name), 'utf8')
const prelude = file('prelude.py')

export const driver = file('driver.py')

export interface Attempt {
  readonly way: Way
  /** A DNS label and a device's name: at most 15 lower-case letters and digits. */
  readonly token: string
}

/** The standard input of the driver. */
export function inputOf(attempts: readonly Attempt[]): string {
  return JSON.stringify({ prelude, ways: attempts.map(({ way, token }) => ({ token, ...way.script })) })
}

/** What shows that the way leads out. Empty: it does not. */
export function arrivals({ at }: Way, token: string, records: readonly Reached[], output: string): string[] {
  const found = records
    .filter((record) => at.test(record.at) && hasToken(record, token))
    .map(({ kind, protocol = '', at: where }) => `${kind} ${protocol} ${where}`)
  return output.includes(`OUT ${token}`) ? [...found, `output: ${output.trim().slice(0, 200)}`] : found
}

function hasToken({ data, headers }: Reached, token: string): boolean {
  return data.includes(token) || (headers !== undefined && JSON.stringify(headers).includes(token))
}
