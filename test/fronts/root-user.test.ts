import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Daytona } from '@daytona/sdk'
import { Sandbox as VercelSandbox } from '@vercel/sandbox'
import { E2B } from 'e2b'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type TestStore, testStore, writeLayout } from '../../packages/engine/src/images/testing/image.ts'
import { file, folder, symlink, tar } from '../../packages/engine/src/images/testing/tar.ts'
import { staticBusybox } from '../../packages/engine/src/images/testing/tools.ts'

const missing = await isolationMissing()
const script = 'sudo sh -c "id -u; touch /usr/bin/added-by-root && echo added"'

/** The vendors' own SDKs, on fronts that give sandboxes a root user. */
describe.skipIf(missing)(`fronts with user: root${missing ? ` (skipped: ${missing})` : ''}`, () => {
  let daemon: TestDaemon
  let plain: TestDaemon
  const busybox = staticBusybox()
  let bench: TestStore
  const fronts = (more: object) => ({
    e2b: { listen: '127.0.0.1:0', ...more },
    daytona: { listen: '127.0.0.1:0', ...more },
    vercel: { listen: '127.0.0.1:0', ...more },
  })
  beforeAll(async () => {
    const config = { isolator: 'oci', preview_listen: 'off' } as const
    bench = await testStore()
    if (busybox) {
      const layer = tar([
        folder('bin'),
        file('bin/busybox', readFileSync(busybox), { mode: 0o755 }),
        ...['env', 'id', 'sh', 'touch'].map((name) => symlink(`bin/${name}`, 'busybox')),
      ])
      const layout = writeLayout(path.join(bench.folder, 'plain'), { layers: [layer] })
      await bench.store.import(layout.path, { name: 'plain' })
    }
    daemon = await startTestDaemon({
      ...config,
      engine_dir: bench.root,
      allowed_images: ['host', 'plain'],
      allow_root: true,
      fronts: fronts({ user: 'root' }),
    })
    plain = await startTestDaemon({ ...config, fronts: fronts({}) })
  }, 60_000)
  afterAll(async () => {
    await daemon?.stop()
    await plain?.stop()
    bench?.[Symbol.dispose]()
  })

  async function onE2b(at: TestDaemon) {
    const url = at.daemon.fronts.e2b!
    const box = await new E2B({ apiKey: at.key, apiUrl: url, sandboxUrl: url }).Sandbox.create()
    try {
      return (await box.commands.run(`${script} || true`)).stdout
    } finally {
      await box.kill()
    }
  }

  async function onDaytona(at: TestDaemon, snapshot?: string, line = script) {
    const client = new Daytona({ apiKey: at.key, apiUrl: `${at.daemon.fronts.daytona}/api`, target: 'us' })
    const box = await client.create({ snapshot })
    try {
      return (await box.process.executeCommand(`${line} 2>/dev/null || true`)).result
    } finally {
      await box.delete()
      await client[Symbol.asyncDispose]()
    }
  }

  function openVercel(at: TestDaemon) {
    const front = at.daemon.fronts.vercel!
    return VercelSandbox.create({
      token: at.key,
      teamId: 'team',
      projectId: 'project',
      fetch: (url, init) => fetch(String(url).replace('https://vercel.com/api', front), init),
    })
  }

  it.each([
    ['E2B', onE2b],
    ['Daytona', onDaytona],
  ])(
    '%s: sudo works with the setting, and not without it',
    async (_, use: (at: TestDaemon) => Promise<string>) => {
      expect((await use(daemon)).trim()).toBe('0\nadded')
      expect(await use(plain)).not.toContain('added')
    },
  )

  it('sudo works with an image of the store that has none', async ({ skip }) => {
    if (!busybox) skip('needs a static busybox: npm test fetches it on Debian')
    const inBin = (text: string) => text.replace('/usr/bin/', '/bin/')
    expect((await onDaytona(daemon, 'plain', inBin(script))).trim()).toBe('0\nadded')
  })

  it('Vercel: commands with sudo work with the setting, and are refused without it', async () => {
    const box = await openVercel(daemon)
    const command = {
      cmd: 'sh',
      args: ['-c', 'id -u; touch /usr/bin/added-by-root && echo added'],
      sudo: true,
    }
    const result = await box.runCommand(command)
    expect(await result.stdout()).toBe('0\nadded\n')
    await box.stop()
    const other = await openVercel(plain)
    await expect(other.runCommand(command)).rejects.toThrow()
    await other.stop()
  })
})
