import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineProvider } from '@sandkasten/engine'
import type { NetworkRule } from '@sandkasten/sdk'
import { type NormalPolicy, ReachedTargets } from '@sandkasten/sdk/provider'

/** Allowed connections are recorded at their end, which comes a moment after the end of their program. */
const endMs = 2_000
const pollMs = 25

export interface Learning {
  /** The policy that would have sufficed, as a file for `--network`. */
  policy(): Promise<object>
}

/** Follows what the sandbox reaches: the gateway keeps only the last events. */
export function learn(provider: EngineProvider, sandboxId: string, policy: NormalPolicy): Learning {
  const reached = new ReachedTargets()
  const stop = new AbortController()
  let last = 0
  const following = (async () => {
    for await (const event of provider.egressEvents(sandboxId, { follow: true, signal: stop.signal })) {
      last = event.seq
      reached.add(event)
    }
  })()
  // Reported by `policy()`.
  following.catch(() => {})
  return {
    async policy() {
      const until = performance.now() + endMs
      while ((await provider.egressStats(sandboxId)).connections > 0 && performance.now() < until)
        await sleep(pollMs)
      stop.abort()
      await following
      for await (const event of provider.egressEvents(sandboxId, { after: last })) reached.add(event)
      return shown(policy, reached)
    },
  }
}

/** Without what is the default. */
function shown({ deny, transform, services, limits }: NormalPolicy, reached: ReachedTargets): object {
  const used = Object.entries(services).filter(([name]) => reached.hasService(name))
  return {
    allow: reached.rules().flatMap(textOf),
    ...(deny.length > 0 ? { deny } : {}),
    ...(transform.length > 0 ? { transform } : {}),
    ...(used.length > 0 ? { services: Object.fromEntries(used) } : {}),
    ...(Object.keys(limits).length > 0 ? { limits } : {}),
  }
}

/** `github.com`, `github.com:22`, `198.51.100.7:5432`, `[2001:db8::7]:443`. */
function textOf(rule: NetworkRule): NetworkRule[] {
  if (typeof rule === 'string' || 'preset' in rule || ('protocol' in rule && rule.protocol)) return [rule]
  const target = 'host' in rule ? rule.host : rule.cidr.replace(/\/(32|128)$/, '')
  const written = target.includes(':') ? `[${target}]` : target
  return rule.ports?.map((port) => `${written}:${port}`) ?? [target]
}
