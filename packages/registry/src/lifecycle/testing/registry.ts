import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { keySource, SealedSecrets } from '@sandkasten/database/sealed'
import type { SandboxHandle, SandboxProvider } from '@sandkasten/sdk'
import { onTestFinished } from 'vitest'
import type { Context, Timeouts } from '../../context.ts'
import { BeatWatch, Leases } from '../../leases/index.ts'
import { type DatabaseLocation, openStore, type SandboxRow } from '../../store/index.ts'
import { readRow } from '../../store/testing/beside.ts'
import type { Scope } from '../../types.ts'
import { dueAt } from '../../work/due.ts'
import { Uses } from '../../work/uses.ts'
import { Resume } from '../resume.ts'
import { ScopedSandboxes } from '../scoped-registry.ts'
import { recover } from '../settle.ts'

/** A registry of a process: several on one database are like several processes, but for their process id. */
export interface TestRegistry {
  readonly context: Context
  readonly sandboxes: ScopedSandboxes
  in(scope: Scope): ScopedSandboxes
  readonly uses: Uses
  /** The row, also of a tombstone, read beside the registry. */
  row(name: string): Promise<SandboxRow>
  close(): Promise<void>
}

export interface TestRegistryOptions {
  readonly timeouts?: Partial<Timeouts>
  /** Other providers that are set up. */
  readonly others?: readonly SandboxProvider[]
  readonly now?: () => number
}

export const shortTimeouts: Timeouts = { lookMs: 2_000, changeMs: 5_000, settleMs: 400, cleanUpMs: 500 }

export async function openTestRegistry(
  location: DatabaseLocation,
  provider: SandboxProvider,
  { timeouts = {}, others = [], now = Date.now }: TestRegistryOptions = {},
): Promise<TestRegistry> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sk-life-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const store = await openStore(location, { now })
  const watch = new BeatWatch()
  const uses = new Uses(store.holds, watch, now)
  const context: Context = {
    registryId: await store.facts.registryId(),
    store,
    leases: new Leases(store.sandboxes, watch, (...dead) => recover(context, ...dead), dueAt),
    providers: fixedProviders([provider, ...others]),
    secrets: await SealedSecrets.open(store.sealed, keySource({ file: path.join(folder, 'key'), env: {} })),
    withSecretsOf: (_, work) => work(),
    uses,
    limits: { perGuild: 100, perChannel: 20 },
    timeouts: { ...shortTimeouts, ...timeouts },
    now,
  }
  const resume = new Resume(context)
  const hold = () => Promise.reject(new Error('Holds have their own tests.'))
  let isOpen = true
  const close = async () => {
    if (!isOpen) return
    isOpen = false
    await uses.close()
    await context.leases.close()
    await store.close()
  }
  onTestFinished(close)
  const scoped = (scope?: Scope) => new ScopedSandboxes({ context, resume, hold }, scope)
  return { context, sandboxes: scoped(), in: scoped, uses, row: (name) => readRow(location, name), close }
}

function fixedProviders(all: readonly SandboxProvider[]): Context['providers'] {
  const chosen = (provider: SandboxProvider) => ({ provider, credentialsId: null })
  return {
    choose: async (_, name) => chosen(all.find((one) => name === undefined || one.name === name)!),
    check: () => {},
    of: async ({ provider }) => all.find(({ name }) => name === provider)!,
    all: async () => all.map(chosen),
  }
}

/** A provider whose calls can be replaced, and are counted. */
export interface Wrapped<P extends SandboxProvider> {
  readonly provider: P
  /** Calls by name; `start` is a `get` that may start the sandbox. */
  readonly counts: Record<string, number>
  /** Replaces the next calls of a method, until it is set to undefined. `real` calls the provider. */
  readonly instead: {
    [method: string]: ((real: () => Promise<unknown>, args: unknown[]) => Promise<unknown>) | undefined
  }
}

const handleMethods = ['info', 'stop', 'pause', 'snapshot', 'destroy', 'setNetwork']

export function wrap<P extends SandboxProvider>(inner: P): Wrapped<P> {
  const counts: Record<string, number> = {}
  const instead: Wrapped<P>['instead'] = {}
  const intercept = <T extends object>(
    target: T,
    methods: (name: string, args: unknown[]) => string | undefined,
  ): T =>
    new Proxy(target, {
      get(object, property) {
        const value: unknown = Reflect.get(object, property)
        if (typeof value !== 'function') return value
        return async (...args: unknown[]) => {
          const name = methods(String(property), args)
          const real = async () => {
            const result: unknown = await value.apply(object, args)
            const isHandle = name === 'create' || name === 'get' || name === 'start'
            return isHandle
              ? intercept(result as SandboxHandle, (method) =>
                  handleMethods.includes(method) ? method : undefined,
                )
              : result
          }
          if (name === undefined) return value.apply(object, args)
          counts[name] = (counts[name] ?? 0) + 1
          return instead[name] ? instead[name](real, args) : real()
        }
      },
    })
  const provider = intercept(inner, (name, args) => {
    if (name !== 'get')
      return ['create', 'list', 'destroy', 'deleteSnapshot', 'listSnapshots'].includes(name)
        ? name
        : undefined
    return (args[1] as { resume?: boolean } | undefined)?.resume === false ? 'get' : 'start'
  })
  return { provider, counts, instead }
}

/** A promise that a test resolves, and one that tells when a call has reached it. */
export function gate() {
  const reached = Promise.withResolvers<void>()
  const opened = Promise.withResolvers<void>()
  return {
    reached: reached.promise,
    open: opened.resolve,
    pass: async () => {
      reached.resolve()
      await opened.promise
    },
  }
}
