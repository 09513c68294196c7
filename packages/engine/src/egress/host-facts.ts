import { statSync } from 'node:fs'
import { isIP } from 'node:net'
import { networkInterfaces } from 'node:os'
import { readText } from '../read-files.ts'
import type { HostFacts } from './wire.ts'

const POLL_MS = 3_000
const MAX_NAMES = 1_000

/** Facts that replace those of this machine: for tests, and for machines whose resolver is elsewhere. */
export type HostOverrides = Partial<HostFacts>

/** This machine's resolvers and addresses, and the names of `/etc/hosts` without those of the machine itself. */
export function hostFacts(overrides: HostOverrides = {}): HostFacts {
  return {
    resolvers: overrides.resolvers ?? resolvers(),
    own: overrides.own ?? ownAddresses(),
    hosts: overrides.hosts ?? hostNames(),
  }
}

/** Calls the listener when the facts change, until the returned function is called. Does not keep this process alive. */
export function watchHost(overrides: HostOverrides, listener: (facts: HostFacts) => void): () => void {
  let seen = fingerprint()
  const timer = setInterval(() => {
    const now = fingerprint()
    if (now === seen) return
    seen = now
    listener(hostFacts(overrides))
  }, POLL_MS)
  timer.unref()
  return () => clearInterval(timer)
}

function fingerprint(): string {
  const times = ['/etc/resolv.conf', '/etc/hosts'].map(
    (file) => statSync(file, { throwIfNoEntry: false })?.mtimeMs,
  )
  return JSON.stringify([times, ownAddresses()])
}

function ownAddresses(): string[] {
  const all = Object.values(networkInterfaces()).flat()
  return [...new Set(all.map((one) => one!.address.split('%')[0]!))].sort()
}

function resolvers(): string[] {
  const lines = (readText('/etc/resolv.conf') ?? '').split('\n')
  const addresses = lines.map((line) => /^nameserver\s+(\S+)/.exec(line)?.[1])
  return addresses.filter((address) => address !== undefined && isPlain(address)) as string[]
}

const isHost = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*$/

/** Without a zone, which means nothing to another process. */
function isPlain(address: string): boolean {
  return isIP(address) !== 0 && !address.includes('%')
}

function hostNames(): Record<string, string[]> {
  const names = new Map<string, string[]>()
  for (const line of (readText('/etc/hosts') ?? '').split('\n')) {
    const [address = '', ...all] = line.replace(/#.*/, '').trim().split(/\s+/)
    if (!isPlain(address) || address.startsWith('127.') || address === '::1') continue
    for (const name of all) {
      const key = name.toLowerCase()
      if (!isHost.test(key)) continue
      if (names.size < MAX_NAMES || names.has(key)) names.set(key, [...(names.get(key) ?? []), address])
    }
  }
  return Object.fromEntries(names)
}
