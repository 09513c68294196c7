import { SandboxError } from '../../errors.ts'
import { override } from '../../shared/override.ts'
import type { RunCommandOptions, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

export const brokenLives: BrokenProvider[] = [
  {
    name: 'destroy-leaves-processes',
    what: 'destroy forgets the sandbox, but its programs keep running',
    caughtBy: ['destroy-ends-processes'],
    make: (working, sharedState) =>
      breakProvider(working, {
        sandbox: (real) => ({
          destroy: async (options) => {
            const sandbox = sharedState.sandboxes.get(real.sandboxId)
            for (const process of sandbox?.processes.values() ?? []) process.program.deliver = () => {}
            return real.destroy(options)
          },
        }),
      }),
  },
  {
    name: 'double-destroy-throws',
    what: 'destroying a missing sandbox throws an error',
    caughtBy: ['destroy', 'destroy-race'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          destroy: async (options) => {
            if (await real.destroy(options)) return true
            throw new SandboxError('not_found', 'It is gone.')
          },
        }),
      }),
  },
  {
    name: 'usable-after-destroy',
    what: 'a handle of a destroyed sandbox silently creates a new one',
    caughtBy: ['use-after-destroy'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) =>
            real.runCommand(options).catch((error) => {
              if (error?.code !== 'not_found') throw error
              return { exitCode: 0, stdout: '', stderr: '', timedOut: false, truncated: false, durationMs: 0 }
            })) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'talks-to-successor',
    what: 'an old handle works with a sandbox that another caller has restarted',
    caughtBy: ['interrupted'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) =>
            real.runCommand(options).catch(async (error) => {
              if (error?.code !== 'interrupted') throw error
              return (await working.get(real.id)).runCommand(options)
            })) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'stop-hides-the-start',
    what: 'a command that stop() interrupts fails as if it had never run',
    caughtBy: ['stop-during-command'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          runCommand: (async (options: RunCommandOptions) => {
            const result = await real.runCommand(options)
            if (result.signal === undefined || (await real.status()) !== 'stopped') return result
            throw new SandboxError('not_running', 'It is stopped.')
          }) as SandboxHandle['runCommand'],
        }),
      }),
  },
  {
    name: 'list-ignores-labels',
    what: 'list returns everything, whatever the labels',
    caughtBy: ['list-filter'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({ list: ({ labels: _, ...options } = {}) => real.list(options) }),
      }),
  },
  {
    name: 'pages-overlap',
    what: 'every page begins at the start',
    caughtBy: ['list-pages'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({ list: ({ cursor: _, ...options } = {}) => real.list(options) }),
      }),
  },
  {
    name: 'get-or-create-races',
    what: 'concurrent callers with one name each get their own sandbox',
    caughtBy: ['get-or-create-race'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          getOrCreate: async ({ onCreate, onResume, name, ...options }) => {
            const labels = { ...options.labels, name }
            const [found] = await real.list({ labels: { name } })
            const sandbox = found ? await real.get(found.id) : await real.create({ ...options, labels })
            await (found ? onResume : onCreate)?.(sandbox)
            return sandbox
          },
        }),
      }),
  },
  {
    name: 'on-create-failure-leaves-sandbox',
    what: 'a failed onCreate leaves the sandbox behind',
    caughtBy: ['get-or-create-failure'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          getOrCreate: async ({ onCreate, ...options }) => {
            let made: SandboxHandle | undefined
            const sandbox = await real.getOrCreate({
              ...options,
              onCreate: (created) => {
                made = created
              },
            })
            if (made) await onCreate?.(sandbox)
            return sandbox
          },
        }),
      }),
  },
  {
    name: 'name-taken-twice',
    what: 'a taken name is assigned again',
    caughtBy: ['name-conflict', 'name-race'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: (options) =>
            real
              .create(options)
              .catch((error) =>
                error?.code === 'conflict'
                  ? real.create({ ...options, name: `${options?.name} again` })
                  : Promise.reject(error),
              ),
        }),
      }),
  },
  {
    name: 'unsupported-silent',
    what: 'an absent ability silently does nothing',
    options: { capabilities: { snapshot: false, fork: false } },
    caughtBy: ['snapshot', 'snapshot-list', 'fork'],
    make: (working) =>
      breakProvider(working, {
        sandbox: () => ({ snapshot: async () => undefined as never, fork: async () => [] }),
        provider: () => ({ listSnapshots: async () => [], deleteSnapshot: async () => false }),
      }),
  },
  {
    name: 'options-ignored',
    what: 'unknown options of create are ignored',
    caughtBy: ['create-option-image', 'create-option-resources', 'create-option-runtime'],
    make: (working) =>
      breakProvider(working, {
        provider: (real) => ({
          create: ({ image: _image, runtime: _runtime, resources: _resources, ...options } = {}) =>
            real.create(options),
        }),
      }),
  },
  {
    name: 'restricted-leaks',
    what: 'the restricted view can destroy the sandbox',
    caughtBy: ['restricted-lacks'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          restricted: () => Object.freeze({ ...real.restricted(), destroy: () => real.destroy() }) as never,
        }),
      }),
  },
  {
    name: 'restricted-is-the-sandbox',
    what: 'the restricted view is the sandbox with some methods hidden',
    caughtBy: ['restricted-no-way-back', 'restricted-frozen'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          restricted: () =>
            Object.create(
              override(real, { destroy: undefined, stop: undefined } as Partial<SandboxHandle>),
            ) as never,
        }),
      }),
  },
  {
    name: 'fork-is-the-original',
    what: 'a fork shares its disk with the original',
    caughtBy: ['fork', 'fork-count'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          fork: async ({ count = 1 } = {}) => Array.from({ length: count }, () => real),
        }),
      }),
  },
  {
    name: 'snapshot-ends-programs',
    what: 'a snapshot restarts the sandbox, although the provider declares that it does not',
    caughtBy: ['snapshot-programs', 'fork-programs'],
    options: { snapshotInterrupts: true },
    make: (working) => breakProvider(working, { provider: () => ({ snapshotInterrupts: false }) }),
  },
  {
    name: 'snapshot-spares-programs',
    what: 'the provider declares that a snapshot ends programs, but they keep running',
    caughtBy: ['snapshot-programs', 'fork-programs'],
    make: (working) => breakProvider(working, { provider: () => ({ snapshotInterrupts: true }) }),
  },
  {
    name: 'snapshot-loses-its-handle',
    what: 'after a snapshot that restarts the sandbox, the handle that took it belongs to the earlier start',
    caughtBy: ['snapshot-programs', 'fork-programs'],
    options: { snapshotInterrupts: true },
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          snapshot: async (options) => (await working.get(real.id)).snapshot(options),
          fork: async (options) => (await working.get(real.id)).fork(options),
        }),
      }),
  },
  {
    name: 'extend-adds-up',
    what: 'extendTimeout adds to the remaining time instead of counting from now',
    caughtBy: ['extend-never-shortens'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          extendTimeout: async (ms) =>
            real.extendTimeout(
              ms + Math.max(0, ((await real.info()).expiresAt?.getTime() ?? 0) - Date.now()),
            ),
        }),
      }),
  },
  {
    name: 'pause-is-a-word',
    what: 'a paused sandbox reports that state, but its programs keep running',
    caughtBy: ['pause'],
    make: (working) => {
      const paused = new Set<string>()
      return breakProvider(working, {
        sandbox: (real) => ({
          pause: async () => void paused.add(real.id),
          resume: async () => void paused.delete(real.id),
          status: async (options) => (paused.has(real.id) ? 'paused' : real.status(options)),
        }),
      })
    },
  },
]
