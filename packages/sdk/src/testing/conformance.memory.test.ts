import { describe, it } from 'vitest'
import { MemoryProvider } from '../providers/memory/index.ts'
import { conformance, memoryCommands, memoryEgress } from './index.ts'

const provider = new MemoryProvider()

conformance({
  title: 'conformance: memory (simulated)',
  runtimes: ['node24', 'node22', 'python3.13'],
  provider: () => provider,
  commands: memoryCommands(provider),
  egress: memoryEgress,
  reopen: () => provider.reopen(),
  leftovers: (sandboxId) => provider.running(sandboxId),
  without: { server: 'the memory provider has no network' },
  limits: { lifetimeMs: 150, commandTimeoutMs: 50 },
  runner: { describe, it },
})

const bare = new MemoryProvider({
  capabilities: {
    stdin: false,
    reattach: false,
    ports: false,
    watch: false,
    stop: false,
    pause: false,
    snapshot: false,
    fork: false,
    lifetime: false,
    egress: false,
  },
})

conformance({
  title: 'conformance: memory without abilities (simulated)',
  provider: () => bare,
  commands: memoryCommands(bare),
  reopen: () => bare.reopen(),
  leftovers: (sandboxId) => bare.running(sandboxId),
  limits: { lifetimeMs: 150, commandTimeoutMs: 50, bigFileBytes: 8 * 1024 * 1024 },
  runner: { describe, it },
})

const interrupting = new MemoryProvider({ snapshotInterrupts: true })

conformance({
  title: 'conformance: memory whose snapshots interrupt (simulated)',
  provider: () => interrupting,
  commands: memoryCommands(interrupting),
  egress: memoryEgress,
  reopen: () => interrupting.reopen(),
  leftovers: (sandboxId) => interrupting.running(sandboxId),
  without: { server: 'the memory provider has no network' },
  only: ['snapshots and forks'],
  runner: { describe, it },
})
