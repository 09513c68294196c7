import type { AllCapabilities, RestrictedAbility, RestrictedSandbox, SandboxHandle } from '../spec/index.ts'

/**
 * A new object with a few bound methods: no prototype and no property leads back to the handle, so what is not
 * listed here cannot be reached from it.
 */
export function restrict(sandbox: SandboxHandle<AllCapabilities>): RestrictedSandbox<AllCapabilities> {
  const view = Object.create(null) as Record<string, unknown>
  for (const name of properties) if (sandbox[name] !== undefined) view[name] = sandbox[name]
  for (const name of methods) view[name] = (sandbox[name] as (...args: unknown[]) => unknown).bind(sandbox)
  const allowed: readonly string[] = abilities
  view.capabilities = Object.freeze(
    Object.fromEntries(Object.entries(sandbox.capabilities).filter(([ability]) => allowed.includes(ability))),
  )
  return Object.freeze(view) as unknown as RestrictedSandbox<AllCapabilities>
}

const properties = ['id', 'sandboxId', 'provider', 'name', 'workdir', 'files'] as const
const methods = [
  'status',
  'runCommand',
  'spawn',
  'readFile',
  'writeFile',
  'getProcess',
  'listProcesses',
  'openShell',
  'openTerminal',
] as const
/** `stdin` and `watch` bring no method of the sandbox itself, but say what its processes and files can do. */
const abilities: ReadonlyArray<RestrictedAbility | 'stdin' | 'watch'> = [
  'reattach',
  'shell',
  'terminal',
  'stdin',
  'watch',
]
