import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { SandboxError } from '@sandkasten/sdk'
import { afterAll, beforeAll, beforeEach, expect, it, onTestFinished } from 'vitest'
import { talkTo } from '../../testing/cage.ts'
import { type DockerCage, openDockerCage } from '../testing/cage.ts'
import { podmanMissing } from '../testing/daemons.ts'
import { importRootfs } from '../testing/rootfs.ts'

/** Differences between Podman and Docker. The conformance kit and the escape corpus cover the rest. */

const reason = podmanMissing()
let cage: DockerCage
beforeEach((ctx) => ctx.skip(reason !== undefined, reason))
beforeAll(async () => {
  if (reason === undefined) cage = await openDockerCage('podman')
}, 600_000)
afterAll(async () => cage?.[Symbol.asyncDispose](), 120_000)

it('a frozen sandbox has not ended, can be attached and can be killed', async () => {
  const box = await cage.start()
  await box.sandbox.freeze()
  await box.sandbox.freeze()
  const other = await cage.another().attach(box.spec)
  expect(other).toBeDefined()
  expect(await cage.isolator.lastEnd(box.spec)).toBeUndefined()
  await box.sandbox.thaw()
  expect((await box.sh('echo again')).out).toBe('again')
  await box.sandbox.freeze()
  const end = await box.sandbox.kill()
  expect(end).toMatchObject({ signal: 9, killed: true })
  expect(await other!.ended).toMatchObject({ signal: 9 })
  expect(await cage.remove(box)).toEqual([])
})

it('without a shared disk, the seccomp profile must be named and is never omitted', async () => {
  const runFolder = mkdtempSync('/run/skt-')
  onTestFinished(() => rmSync(runFolder, { recursive: true, force: true }))
  const remote = cage.another({ runFolder })
  await importRootfs(cage.docker, 'localhost/small:1')
  const spec = cage.spec({ image: { reference: 'localhost/small:1' } })
  await expect(remote.start(spec)).rejects.toSatisfy(
    (error) => SandboxError.is(error, 'unsupported') && error.hint.includes('seccompProfile'),
  )
  expect(await cage.docker.listContainers({ all: true })).toEqual([])
})

it('works over the bridge, and detects an unexpected end', async () => {
  const isolator = cage.another({ bridge: true })
  const spec = cage.spec()
  const sandbox = await isolator.start(spec)
  expect((await (await talkTo(sandbox)).sh('echo far; id -u')).out).toBe('far\n1000')
  const { State } = await cage.docker.getContainer(`sandkasten-${cage.owner}-${spec.sandboxId}`).inspect()
  process.kill(State.Pid, 'SIGKILL')
  expect(await sandbox.ended).toMatchObject({ signal: 9, killed: false })
  await isolator.remove(spec)
})

it('Podman writes its out-of-memory marker into its own folder, not into the working directory of the tests', async () => {
  const box = await cage.start({ limits: { ...cage.spec().limits, memoryBytes: 32 * 1024 * 1024 } })
  await box.sh('head -c 200m /dev/zero | tail -c 200m | wc -c')
  expect(await box.sandbox.oomKills()).toBeGreaterThan(0)
  expect(await cage.remove(box)).toEqual([])
  expect(existsSync('oom')).toBe(false)
})
