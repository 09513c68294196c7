import type { Network, NetworkPolicy } from '../../../spec/index.ts'
import { equal, includes, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import type { Trial } from '../../trial.ts'
import type { AnySandbox, NetworkTarget } from '../../types.ts'
import { group } from '../../types.ts'

/** Vendors have names, but not all have ports and addresses. */
const first: NetworkPolicy = { allow: ['Example.COM.', '*.example.org'] }
const second: NetworkPolicy = { allow: ['example.net'] }
const firstHosts = ['example.com', '*.example.org']
const secondHosts = ['example.net']

/** The hosts of a policy, or its word. Undefined if the handle does not know. */
function shown({ network }: AnySandbox): unknown {
  if (typeof network !== 'object') return network
  return network.allow.map((rule) => (typeof rule === 'object' && 'host' in rule ? rule.host : rule))
}

/** A handle may not know the network, but it must not show another one. */
async function expectNetwork(t: Trial, sandbox: AnySandbox, expected: unknown, when: string) {
  equal(shown(sandbox), expected, `network ${when}`)
  const handles = [await t.provider.get(sandbox.id), await (await t.reopened())?.get(sandbox.id)]
  for (const handle of handles)
    if (handle?.network !== undefined) equal(shown(handle), expected, `network of another handle ${when}`)
}

const wrong: ReadonlyArray<[network: unknown, place: string]> = [
  [{ allow: ['example.com', 'https://example.com/'] }, 'allow[1]'],
  [{ allow: ['exa*mple.com'] }, 'allow[0]'],
  [{ allow: ['198.51.100.7/24'] }, 'allow[0]'],
  [{ allow: ['example.com:0'] }, 'allow[0]'],
  [{ allow: [], deny: [{ host: 'example.com', ports: ['443'] }] }, 'deny[0]'],
  [{ allow: ['preset:nothing'] }, 'preset'],
  [
    { allow: [], transform: [{ match: { host: 'example.com' }, headers: { a: 'b\r\nc: d' } }] },
    'transform[0]',
  ],
  [{ allow: [], services: { 'a.b': { host: '127.0.0.1', port: 1 } } }, 'services'],
  [{ allow: new Array(1001).fill('example.com') }, '1001'],
  [{}, 'allow'],
  ['bridge', 'bridge'],
]

function ruleFor({ host, port }: NetworkTarget): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

async function opens(t: Trial, sandbox: AnySandbox, target: NetworkTarget): Promise<boolean> {
  const process = await t.spawn(sandbox, t.connect(target))
  const reader = new EventReader(process)
  try {
    await reader.until('open\n')
    return true
  } catch {
    ok((await reader.exit().catch(() => undefined))?.exitCode !== 0, 'A connection that failed exits with 0')
    return false
  } finally {
    await reader.stop()
    await process.kill('SIGKILL')
  }
}

async function expectReach(
  t: Trial,
  sandbox: AnySandbox,
  reached: 'allowed' | 'denied' | 'both' | 'none',
  when: string,
) {
  const { allowed, denied } = t.targets
  equal(
    [await opens(t, sandbox, allowed), await opens(t, sandbox, denied)],
    [reached === 'allowed' || reached === 'both', reached === 'denied' || reached === 'both'],
    `[${ruleFor(allowed)} answers, ${ruleFor(denied)} answers] ${when}`,
  )
}

export const network = group('network', [
  {
    id: 'network-none',
    name: 'A sandbox can be created with the network none, and its handle does not show another one',
    options: ['network'],
    async run(t) {
      const sandbox = await t.create({ network: 'none' })
      await expectNetwork(t, sandbox, 'none', 'after create')
    },
  },
  {
    id: 'network-policy',
    name: 'A policy given at create is in handle.network, in its normal form, and survives a restart',
    needs: ['egress'],
    options: ['network'],
    async run(t) {
      const sandbox = await t.create({ network: first })
      await expectNetwork(t, sandbox, firstHosts, 'after create')
      if (!sandbox.capabilities.stop) return
      await sandbox.stop()
      await sandbox.start()
      await expectNetwork(t, sandbox, firstHosts, 'after stop and start')
    },
  },
  {
    id: 'network-set',
    name: 'setNetwork() replaces the whole network: a policy by another one, and by none',
    needs: ['egress'],
    options: ['network'],
    async run(t) {
      const sandbox = await t.create({ network: first })
      await sandbox.setNetwork(second)
      await expectNetwork(t, sandbox, secondHosts, 'after setNetwork()')
      await sandbox.setNetwork('none')
      await expectNetwork(t, sandbox, 'none', 'after setNetwork(none)')
    },
  },
  {
    id: 'network-wrong-create',
    name: 'create() with a wrong policy throws invalid_argument, names the rule, and creates nothing',
    needs: ['egress'],
    options: ['network'],
    async run(t) {
      for (const [network, place] of wrong) {
        const create = async () => t.create({ network: network as Network })
        const error = await rejects(create, 'invalid_argument', `create({ network: ${shortly(network)} })`)
        includes(error.message, place, 'the message')
      }
    },
  },
  {
    id: 'network-wrong-set',
    name: 'setNetwork() with a wrong policy throws invalid_argument, and the earlier network stays',
    needs: ['egress'],
    options: ['network'],
    async run(t) {
      const sandbox = await t.create({ network: first })
      for (const [network, place] of wrong) {
        const set = () => sandbox.setNetwork(network as Network)
        const error = await rejects(set, 'invalid_argument', `setNetwork(${shortly(network)})`)
        includes(error.message, place, 'the message')
      }
      await expectNetwork(t, sandbox, firstHosts, 'after refused changes')
    },
  },
  {
    id: 'network-fork',
    name: 'A fork has the network of its sandbox at that time, not the one of its create',
    needs: ['egress', 'fork'],
    options: ['network'],
    async run(t) {
      const sandbox = await t.create({ network: first })
      await sandbox.setNetwork(second)
      const [fork] = await sandbox.fork()
      if (!fork || fork instanceof Error) throw fork ?? new Error('fork() returned nothing')
      t.adopt(fork)
      if (fork.network !== undefined) equal(shown(fork), secondHosts, 'network of the fork')
    },
  },
  {
    id: 'network-gone',
    name: 'setNetwork() of a destroyed sandbox throws not_found',
    needs: ['egress'],
    async run(t) {
      const sandbox = await t.create()
      await sandbox.destroy()
      await rejects(sandbox.setNetwork('none'), 'not_found', 'setNetwork() of a destroyed sandbox')
    },
  },
  {
    id: 'egress-policy',
    name: 'Programs reach what the policy allows and nothing else, and deny wins',
    needs: ['egress'],
    options: ['network'],
    program: 'connect',
    async run(t) {
      const [allowed, denied] = [ruleFor(t.targets.allowed), ruleFor(t.targets.denied)]
      const sandbox = await t.create({ network: { allow: [allowed] } })
      await expectReach(t, sandbox, 'allowed', 'with one of them allowed')
      await sandbox.setNetwork({ allow: [allowed, denied] })
      await expectReach(t, sandbox, 'both', 'with both allowed')
      await sandbox.setNetwork({ allow: [allowed, denied], deny: [denied] })
      await expectReach(t, sandbox, 'allowed', 'with both allowed and one denied')
      await sandbox.setNetwork({ allow: [] })
      await expectReach(t, sandbox, 'none', 'with an empty policy')
    },
  },
  {
    id: 'egress-change',
    name: 'setNetwork() counts for new connections at once, and ends open ones that it no longer allows',
    needs: ['egress'],
    options: ['network'],
    program: 'connect',
    async run(t) {
      const { allowed, denied } = t.targets
      const sandbox = await t.create({ network: { allow: [ruleFor(allowed)] } })
      const reader = new EventReader(await t.spawn(sandbox, t.connect(allowed)))
      await reader.until('open\n')
      await sandbox.setNetwork({ allow: [ruleFor(denied)] })
      await expectReach(t, sandbox, 'denied', 'after setNetwork()')
      await reader.until('closed\n')
      await sandbox.setNetwork('none')
      await expectReach(t, sandbox, 'none', 'after setNetwork(none)')
    },
  },
  {
    id: 'egress-fork',
    name: 'Programs of a fork, and of a sandbox that was stopped, reach only what the policy allows',
    needs: ['egress', 'fork', 'stop'],
    options: ['network'],
    program: 'connect',
    async run(t) {
      const sandbox = await t.create({ network: { allow: [] } })
      await sandbox.setNetwork({ allow: [ruleFor(t.targets.allowed)] })
      const [fork] = await sandbox.fork()
      if (!fork || fork instanceof Error) throw fork ?? new Error('fork() returned nothing')
      await expectReach(t, t.adopt(fork), 'allowed', 'in the fork')
      await sandbox.stop()
      await sandbox.start()
      await expectReach(t, sandbox, 'allowed', 'after stop and start')
    },
  },
])

function shortly(value: unknown): string {
  return JSON.stringify(value).slice(0, 100)
}
