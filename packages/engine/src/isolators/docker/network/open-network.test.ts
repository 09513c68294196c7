import { execFileSync } from 'node:child_process'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { hasProgram } from '../../oci/launch/find-program.ts'
import { talkTo } from '../../testing/cage.ts'
import { openDockerCage } from '../testing/cage.ts'
import { dockerMissing } from '../testing/daemons.ts'

/**
 * The network `open` of a container. The daemon creates a namespace with only a loopback. This test connects it to
 * another namespace with stand-in addresses, so no packet leaves the machine.
 */
const tools = ['ip', 'nsenter', 'perl'].filter((name) => !hasProgram(name))
const reason = dockerMissing() ?? (tools.length > 0 ? `needs ${tools.join(', ')}` : undefined)
const world = `skt-${process.pid}-docker`
const ip = (...args: string[]) => execFileSync('ip', args, { stdio: ['ignore', 'ignore', 'pipe'] })

beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(() => {
  if (reason !== undefined) return
  ip('netns', 'add', world)
  ip('-n', world, 'link', 'set', 'lo', 'up')
  for (const address of ['10.9.9.9', '169.254.169.254', '12.34.56.78'])
    ip('-n', world, 'address', 'add', `${address}/32`, 'dev', 'lo')
})
afterAll(() => {
  if (reason === undefined) ip('netns', 'delete', world)
})

describe('docker: network open', () => {
  it('blocks private and metadata addresses, and reports its weaknesses', {
    timeout: 120_000,
  }, async () => {
    await using cage = await openDockerCage('docker')
    const isolator = cage.another({ network: 'none', openNetwork: { allow: [] } })
    expect((await isolator.weaker()).join(' ')).toContain('not those that it gets later')
    expect((await cage.another({ bridge: true }).weaker()).join(' ')).toContain('reaches private networks')
    const spec = cage.spec({ network: 'open' })
    const sandbox = await isolator.start(spec)
    const { State } = await cage.docker.getContainer(`sandkasten-${cage.owner}-${spec.sandboxId}`).inspect()
    const pid = String(State.Pid)
    ip('-n', world, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', pid)
    ip('-n', world, 'address', 'add', '192.168.77.1/24', 'dev', 'eth0')
    ip('-n', world, 'link', 'set', 'eth0', 'up')
    const inside = (...args: string[]) =>
      execFileSync('nsenter', [`--net=/proc/${pid}/ns/net`, 'ip', ...args])
    inside('address', 'add', '192.168.77.2/24', 'dev', 'eth0')
    inside('link', 'set', 'eth0', 'up')
    inside('route', 'add', 'default', 'via', '192.168.77.1')
    const talk = await talkTo(sandbox)
    const connect = (address: string) =>
      talk.sh(
        `perl -MSocket -e 'alarm 5; socket(my $s, AF_INET, SOCK_STREAM, 0); connect($s, pack_sockaddr_in(8080, inet_aton("${address}"))); print "$!"'`,
      )
    // Nothing listens there, so a refused connection proves that the address is reachable.
    expect((await connect('12.34.56.78')).out).toBe('Connection refused')
    for (const address of ['10.9.9.9', '169.254.169.254', '192.168.77.1'])
      expect((await connect(address)).out).toBe('No route to host')
    talk.client.close()
    await isolator.remove(spec)
  })
})
