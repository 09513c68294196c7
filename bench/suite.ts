import type { Cleanup } from './cleanup.ts'
import type { Report } from './report.ts'

export interface Suite {
  readonly name: string
  readonly about: string
  ids(quick: boolean): readonly string[]
  run(report: Report, cleanup: Cleanup, options: SuiteOptions): Promise<void>
}

export interface SuiteOptions {
  readonly quick: boolean
  /** An id, a prefix up to a `.`, or a prefix that ends with `@`. Empty: all. */
  readonly only: readonly string[]
}

export function wanting({ only }: SuiteOptions): (id: string) => boolean {
  return (id) => only.length === 0 || only.some((chosen) => matches(id, chosen))
}

export function matches(id: string, chosen: string): boolean {
  return id === chosen || id.startsWith(`${chosen}.`) || (chosen.endsWith('@') && id.startsWith(chosen))
}
