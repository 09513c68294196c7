import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { networkInterfaces, tmpdir } from 'node:os'
import path from 'node:path'
import { bootstrapOpencode, modelNetwork, runAgent } from '@sandkasten/opencode'
import { placeholder } from '@sandkasten/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
  steps,
} from '../../packages/opencode/src/testing/model-server.ts'
import { type Surroundings, sh, surroundings } from './surroundings.ts'

const KEY = 'sk-model-key-of-the-operator-8a1f'
/** A policy can open this machine’s own address, and never its loopback. */
const address = Object.values(networkInterfaces())
  .flat()
  .find((one) => one?.family === 'IPv4' && !one.internal)?.address
const missing =
  (await isolationMissing()) ?? (address === undefined ? 'needs an address that is not loopback' : undefined)

/** The model asks for its key over TLS. The sandbox has a placeholder, and the gateway adds the key. */
describe.skipIf(missing)(
  `the key of a model is added outside the sandbox${missing ? ` (${missing})` : ''}`,
  () => {
    let folder: string
    let model: ModelServer
    let all: Surroundings
    beforeAll(async () => {
      folder = mkdtempSync(path.join(tmpdir(), 'sk-authority-'))
      const { ca, cert, key } = authority(folder)
      model = await startModelServer(steps(), address, { cert, key, port: 443 })
      all = await surroundings({
        secrets: { model: KEY },
        egress: { upstreamCa: [ca], host: { hosts: { 'model.test': [address!] }, own: [], resolvers: [] } },
      })
    }, 60_000)
    afterAll(async () => {
      await all?.close()
      await model?.close()
      rmSync(folder, { recursive: true, force: true })
    }, 60_000)

    it('opencode works, and neither its disk nor any environment has the key', async () => {
      const url = 'https://model.test/v1'
      const policy = modelNetwork({ url, secret: 'model' })
      const handle = await all.create({ network: { ...policy, allow: [...policy.allow, address!] } })
      const { provider: local, ...config } = modelConfig(url, '{env:MODEL_KEY}')
      const options = {
        config: { ...config, provider: local },
        credentials: [{ variable: 'MODEL_KEY', secret: 'model' }],
      }
      const server = await bootstrapOpencode(handle, options)
      model.script = steps({ tool: 'bash', args: { command: 'env | sort', description: 'Reads everything' } })
      const run = await runAgent(handle, 'opencode', 'show me your key', { server, timeoutMs: 30_000 })
      expect(run).toMatchObject({ text: 'done' })
      expect(model.requests.at(-1)).toMatchObject({ authorization: `Bearer ${KEY}` })
      expect(model.requests.at(-1)!.lastResult).toContain(`MODEL_KEY=${placeholder('model')}`)
      // A process may end meanwhile.
      const processes = await sh(handle, 'cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null || true')
      expect(processes).toContain(`MODEL_KEY=${placeholder('model')}`)
      expect(processes).not.toContain(KEY)
      const onDisk = await handle.runCommand({
        cmd: 'grep',
        args: ['-rlF', '-f', '-', '/home', '/workspace', '/tmp', '/var/tmp', '/etc', '/run'],
        stdin: `${KEY}\n`,
      })
      expect(onDisk.stdout).toBe('')
      // From outside: what the user of the sandbox may not read, and the processes that it does not see.
      expect(filesWith('show me your key', all.root)).not.toEqual([])
      expect(filesWith(KEY, all.root)).toEqual([])
      expect(processesInSandboxesWith(placeholder('model'))).not.toEqual([])
      expect(processesInSandboxesWith(KEY)).toEqual([])
      expect(JSON.stringify(handle.network)).not.toContain(KEY)
    }, 180_000)

    it('a placeholder that nothing replaces is refused before anything starts', async () => {
      const handle = await all.create({})
      await expect(
        bootstrapOpencode(handle, {
          ...all.options,
          credentials: [{ variable: 'MODEL_KEY', secret: 'model' }],
        }),
      ).rejects.toMatchObject({ code: 'invalid_argument', hint: expect.stringContaining('modelNetwork') })
    })

    it('without credentials no variable of this process travels', async () => {
      process.env.ANTHROPIC_API_KEY = KEY
      process.env.OPENCODE_AUTH_CONTENT = JSON.stringify({ anthropic: { type: 'api', key: KEY } })
      try {
        const handle = await all.create({})
        const server = await bootstrapOpencode(handle, all.options)
        const environ = "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'"
        expect(await sh(handle, environ)).not.toContain(KEY)
        await server.stop()
        const named = await bootstrapOpencode(handle, {
          ...all.options,
          credentials: [{ provider: 'anthropic' }],
        })
        expect(await sh(handle, environ)).toContain(KEY)
        await named.stop()
      } finally {
        delete process.env.ANTHROPIC_API_KEY
        delete process.env.OPENCODE_AUTH_CONTENT
      }
    }, 180_000)
  },
)

/** Files of the engine, without the images that are mounted there. */
function filesWith(text: string, folder: string): string[] {
  const search = ['-xdev', '-type', 'f', '-exec', 'grep', '-laF', '--', text, '{}', '+']
  return spawnSync('find', [folder, ...search], { encoding: 'utf8' })
    .stdout.split('\n')
    .filter(Boolean)
}

function processesInSandboxesWith(text: string): string[] {
  const read = (pid: string) => {
    try {
      if (readlinkSync(`/proc/${pid}/ns/pid`) === readlinkSync('/proc/self/ns/pid')) return ''
      return readFileSync(`/proc/${pid}/environ`, 'utf8') + readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    } catch {
      // It has ended.
      return ''
    }
  }
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && read(pid).includes(text))
}

/** A certificate for model.test, and the authority that issued it. */
function authority(folder: string): { ca: string; cert: Buffer; key: Buffer } {
  const file = (name: string) => path.join(folder, name)
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  const openssl = (...args: string[]) =>
    execFileSync('openssl', ['req', '-x509', ...curve, ...args], { stdio: 'pipe' })
  const usage = ['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign']
  openssl('-subj', '/CN=authority of the test', ...usage, '-keyout', file('ca.key'), '-out', file('ca.pem'))
  const issued = [
    '-CA',
    file('ca.pem'),
    '-CAkey',
    file('ca.key'),
    '-addext',
    'subjectAltName=DNS:model.test',
    '-addext',
    'basicConstraints=critical,CA:FALSE',
    '-addext',
    'extendedKeyUsage=serverAuth',
  ]
  openssl('-subj', '/CN=model.test', ...issued, '-keyout', file('key.pem'), '-out', file('cert.pem'))
  return {
    ca: readFileSync(file('ca.pem'), 'utf8'),
    cert: readFileSync(file('cert.pem')),
    key: readFileSync(file('key.pem')),
  }
}
