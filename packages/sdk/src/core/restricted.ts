import type { Capabilities, RestrictedAbility, RestrictedSandbox, SandboxHandle } from '../spec/index.ts'

/** Returns a new object with bound methods. No prototype and no property leads back to the full handle. */
export function restrict<C extends Capabilities>(
  sandbox: SandboxHandle & { readonly capabilities: C },
): RestrictedSandbox<C> {
  const view = Object.create(null) as Record<string, unknown>
  for (const name of properties) if (sandbox[name] !== undefined) view[name] = sandbox[name]
  for (const name of methods) view[name] = (sandbox[name] as (...args: unknown[]) => unknown).bind(sandbox)
  const allowed: readonly string[] = abilities
  view.capabilities = Object.freeze(
    Object.fromEntries(Object.entries(sandbox.capabilities).filter(([ability]) => allowed.includes(ability))),
  )
  return Object.freeze(view) as unknown as RestrictedSandbox<C>
}

const properties = ['id', 'sandboxId', 'provider', 'name', 'workdir', 'writablePaths', 'files'] as const
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
const abilities: readonly RestrictedAbility[] = [
  'reattach',
  'shell',
  'terminal',
  'stdin',
  'mergedOutput',
  'orderedOutput',
  'watch',
]
