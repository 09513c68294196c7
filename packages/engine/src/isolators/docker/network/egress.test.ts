import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { rootCertificates } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { hasProgram } from '../../oci/launch/find-program.ts'
import { readOr } from '../../testing/cage.ts'
import { connect, send, testEgress } from '../../testing/egress.ts'
import { testGateway } from '../../testing/test-gateway.ts'
import { openDockerCage } from '../testing/cage.ts'
import { dockerMissing, podmanMissing } from '../testing/daemons.ts'

const tools = ['python3', 'perl', 'ip'].filter((name) => !hasProgram(name))
const lacking = tools.length > 0 ? `needs ${tools.join(', ')}` : undefined

async function open(kind: 'docker' | 'podman', remap = false) {
  const cage = await openDockerCage(kind, { remap })
  const folder = join(cage.folder, 'egress')
  mkdirSync(folder, { mode: 0o711 })
  return {
    folder,
    async start(policy: { socket: string }) {
      const box = await cage.start({ network: { policy } })
      return {
        sh: box.sh,
        async end() {
          await cage.remove(box)
        },
      }
    },
    close: async () => cage[Symbol.asyncDispose](),
  }
}

testEgress('docker', () => open('docker'), { reason: dockerMissing() ?? lacking, gateway: 65_432 })
testEgress('podman', () => open('podman'), { reason: podmanMissing() ?? lacking, gateway: 65_432 })
testEgress('podman, own ids', () => open('podman', true), {
  reason: podmanMissing() ?? lacking,
  gateway: 65_432,
})

const JAVA_STORE = '/etc/ssl/certs/java/cacerts'
const noJava = existsSync(JAVA_STORE) ? undefined : 'needs a JDK: apt-get install default-jdk-headless'

it.for([
  ['docker', dockerMissing],
  ['podman', podmanMissing],
] as const)('%s: Java trusts the authority', { timeout: 120_000 }, async ([kind, missing], ctx) => {
  const reason = missing() ?? noJava
  ctx.skip(reason !== undefined, reason)
  await using cage = await openDockerCage(kind)
  const socket = join(cage.folder, 'box.sock')
  const box = await cage.start({ network: { policy: { socket } }, authority: rootCertificates[0]! })
  const listed = await box.sh(`keytool -list -keystore ${JAVA_STORE} -storepass changeit -alias sandkasten`)
  expect(listed.out, listed.err).toContain('trustedCertEntry')
  const all = await box.sh(
    `keytool -list -keystore ${JAVA_STORE} -storepass changeit | grep -c trustedCertEntry`,
  )
  expect(Number(all.out)).toBeGreaterThan(10)
})

describe('docker: the holder of a container’s network', () => {
  it('is found again or replaced by attach, and nothing opens while it is gone', {
    timeout: 120_000,
  }, async (ctx) => {
    const reason = dockerMissing() ?? lacking
    ctx.skip(reason !== undefined, reason)
    await using cage = await openDockerCage('docker')
    const socket = join(cage.folder, 'box.sock')
    const box = await cage.start({ network: { policy: { socket } } })
    const perl = async (script: string) => (await box.sh(`perl -e '${script}' 2>&1`)).out
    const [first, ...others] = holdersOf(socket)
    expect(others).toEqual([])
    {
      await using gateway = await testGateway(socket)
      await cage.another().attach(box.spec)
      expect(holdersOf(socket)).toEqual([first])
      expect(await perl(connect('203.0.113.1', 443))).toBe('gateway 203.0.113.1 443')
      process.kill(first!, 'SIGKILL')
      await gateway.ended
    }
    expect(await perl(connect('203.0.113.2', 443))).toMatch(/^failed: Connection refused/)
    expect(await perl(send('192.0.0.3', 53, 'SOCK_DGRAM', 'x'))).toMatch(/^failed/)
    expect(await perl(send('203.0.113.2', 53, 'SOCK_DGRAM', 'x'))).toMatch(/^failed/)
    await Promise.all([cage.another().attach(box.spec), cage.another().attach(box.spec)])
    const next = holdersOf(socket)
    expect(next).toHaveLength(1)
    expect(next).not.toEqual([first])
    {
      await using gateway = await testGateway(socket)
      expect(await perl(connect('203.0.113.3', 443))).toBe('gateway 203.0.113.3 443')
      expect(await perl(send('192.0.0.3', 53, 'SOCK_DGRAM', 'x'))).toBe('dns 1')
      expect(await perl(send('203.0.113.2', 53, 'SOCK_DGRAM', 'x'))).toMatch(/^failed/)
      await gateway.sees('refused 17 203.0.113.2')
    }
    await cage.remove(box)
    for (let tries = 0; holdersOf(socket).length > 0 && tries < 100; tries++) await sleep(20)
    expect(holdersOf(socket)).toEqual([])
  })

  it('is needed: where the engine cannot enter the container’s network, create refuses', async (ctx) => {
    const reason = dockerMissing() ?? lacking
    ctx.skip(reason !== undefined, reason)
    await using cage = await openDockerCage('docker')
    const spec = cage.spec({ network: { policy: { socket: join(cage.folder, 'box.sock') } } })
    await expect(cage.another({ bridge: true }).start(spec)).rejects.toMatchObject({ code: 'unsupported' })
    expect(await cage.docker.listContainers({ all: true })).toEqual([])
    // A container that was connected beforehand has no policy now.
    const open = cage.spec({ network: 'none' })
    await (await cage.isolator.start(open)).kill()
    const changed = { ...open, network: { policy: { socket: join(cage.folder, 'box.sock') } } }
    await expect(cage.isolator.start(changed)).rejects.toMatchObject({ code: 'unsupported' })
    await cage.isolator.remove(open)
  })
})

function holdersOf(socket: string): number[] {
  return readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .filter((pid) => (readOr(`/proc/${pid}/cmdline`) ?? '').split('\0').includes(socket))
    .filter((pid) => readOr(`/proc/${pid}/comm`)?.trim() === 'egress')
    .map(Number)
}
