import { SandboxError } from '../../errors.ts'
import type { Network, NetworkPolicy, SandboxHandle } from '../../spec/index.ts'
import type { BrokenProvider } from './index.ts'
import { breakProvider } from './wrap.ts'

const isPolicy = (network: Network | undefined): network is NetworkPolicy => typeof network === 'object'

/** Breaks setNetwork(): the function gets the caller's network and a way to set another one. */
function breakSet(
  set: (network: Network, real: SandboxHandle) => Promise<void>,
): (real: SandboxHandle) => Partial<SandboxHandle> {
  return (real) => ({ setNetwork: (network) => set(network, real) })
}

export const brokenNetwork: BrokenProvider[] = [
  {
    name: 'none-is-open',
    what: 'a sandbox with the network none shows the network open',
    caughtBy: ['network-none', 'network-set'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          get network() {
            return real.network === 'none' ? 'open' : real.network
          },
        }),
      }),
  },
  {
    name: 'start-forgets-policy',
    what: 'after stop and start, the policy is gone',
    caughtBy: ['network-policy', 'egress-fork'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => ({
          start: async (options) => {
            await real.start(options)
            await real.setNetwork('open')
          },
        }),
      }),
  },
  {
    name: 'set-adds-rules',
    what: 'setNetwork() adds its rules to the earlier ones',
    caughtBy: ['network-set', 'egress-change'],
    make: (working) =>
      breakProvider(working, {
        sandbox: breakSet(async (network, real) => {
          const earlier = isPolicy(real.network) ? real.network.allow : []
          await real.setNetwork(
            isPolicy(network) ? { ...network, allow: [...earlier, ...network.allow] } : network,
          )
        }),
      }),
  },
  {
    name: 'wrong-policy-creates',
    what: 'create() ignores a wrong policy',
    caughtBy: ['network-wrong-create'],
    make: (working) => {
      const create = async (options = {}) =>
        working.create(options).catch((error) => {
          if (SandboxError.is(error, 'invalid_argument')) return working.create()
          throw error
        })
      return breakProvider(working, { provider: () => ({ create }) })
    },
  },
  {
    name: 'wrong-policy-opens',
    what: 'setNetwork() with a wrong policy opens the network before it throws',
    caughtBy: ['network-wrong-set'],
    make: (working) =>
      breakProvider(working, {
        sandbox: breakSet(async (network, real) => {
          await real.setNetwork(network).catch(async (error) => {
            await real.setNetwork('open')
            throw error
          })
        }),
      }),
  },
  {
    name: 'fork-with-first-network',
    what: 'a fork has the network that its sandbox was created with',
    caughtBy: ['network-fork', 'egress-fork'],
    make: (working) =>
      breakProvider(working, {
        sandbox: (real) => {
          const created = real.network ?? 'open'
          return {
            fork: async (options) => {
              const forks = await real.fork(options)
              for (const fork of forks) if (!(fork instanceof Error)) await fork.setNetwork(created)
              return forks
            },
          }
        },
      }),
  },
  {
    name: 'set-after-destroy',
    what: 'setNetwork() of a destroyed sandbox succeeds',
    caughtBy: ['network-gone'],
    make: (working) =>
      breakProvider(working, {
        sandbox: breakSet((network, real) =>
          real.setNetwork(network).catch((error) => {
            if (!SandboxError.is(error, 'not_found')) throw error
          }),
        ),
      }),
  },
  {
    name: 'deny-is-ignored',
    what: 'rules of deny have no effect',
    caughtBy: ['egress-policy'],
    make: (working) =>
      breakProvider(working, {
        sandbox: breakSet((network, real) =>
          real.setNetwork(isPolicy(network) ? { ...network, deny: [] } : network),
        ),
      }),
  },
  {
    name: 'set-counts-later',
    what: 'setNetwork() resolves before new connections follow it',
    caughtBy: ['egress-change'],
    make: (working) =>
      breakProvider(working, {
        sandbox: breakSet(async (network, real) => {
          setTimeout(() => void real.setNetwork(network).catch(() => {}), 50)
        }),
      }),
  },
  {
    name: 'open-connections-stay',
    what: 'connections that a new policy no longer allows stay open',
    caughtBy: ['egress-change'],
    make: (working) =>
      breakProvider(working, {
        process: (real) => ({
          output: async function* (options) {
            for await (const event of real.output(options)) {
              if (event.type === 'stdout' && new TextDecoder().decode(event.data) === 'closed\n') return
              yield event
            }
          } as typeof real.output,
        }),
      }),
  },
  {
    name: 'undeclared-egress',
    what: 'setNetwork() succeeds without the ability, and does nothing',
    caughtBy: ['network-set'],
    options: { capabilities: { egress: false } },
    make: (working) => breakProvider(working, { sandbox: () => ({ setNetwork: async () => {} }) }),
  },
]
