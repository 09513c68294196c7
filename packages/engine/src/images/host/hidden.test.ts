import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../../isolators/oci/testing/bench.ts'
import { remoteSandbox } from '../../isolators/oci/testing/remote-sandbox.ts'
import { testedRuntime } from '../../isolators/oci/testing/runtimes.ts'
import { type HostImageOptions, hiddenInHost } from './hidden.ts'

const SECRET = 'planted-secret-5f2c'
const FILES = ['/usr/local/etc/npmrc', '/usr/etc/pip.conf', '/usr/local/.netrc', '/usr/src/app/.env']
const SHOWN = '/usr/local/share/planted/key'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'skt-hidden-'))
  for (const path of [...FILES, SHOWN]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), SECRET)
  }
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const hiddenPaths = (options: HostImageOptions) =>
  hiddenInHost(options, folder)
    .map(({ path }) => path)
    .sort()

describe('hidden paths of the image `host`', () => {
  it('are the paths on the list that exist, without links', () => {
    symlinkSync('/etc', join(folder, 'usr/local/var'))
    expect(hiddenPaths({})).toEqual(['/usr/etc', '/usr/local/.netrc', '/usr/local/etc', '/usr/src'])
    expect(hiddenPaths({ hide: ['/usr/local/share/planted'], show: ['/usr/src', '/usr/etc'] })).toEqual([
      '/usr/local/.netrc',
      '/usr/local/etc',
      '/usr/local/share/planted',
    ])
  })

  it.each(['usr/x', '/etc/passwd', '/usr', '/usr/../etc', '/usr/a:b', '/usr/x/', ''])(
    '“%s” is refused',
    (path) => {
      expect(() => hiddenInHost({ hide: [path] })).toThrow(/hostImage\.hide/)
    },
  )
})

describe('a sandbox on the image `host`', () => {
  let reason: string | undefined
  beforeAll(async () => {
    reason = await reasonToSkip()
  })
  beforeEach((ctx) => ctx.skip(reason !== undefined, reason))

  /** This machine's /usr with the planted files in it, in a mount namespace that only the engine sees. */
  const planted = (): [string, ...string[]] => {
    const options = `lowerdir=${folder}/usr:/usr`
    return [
      'unshare',
      '--mount',
      'sh',
      '-c',
      `mount -t overlay overlay -o ${options} /usr && exec "$@"`,
      'sh',
    ]
  }
  const read = FILES.map((path) => `cat ${path}`).join('; ')

  it('sees neither planted secrets nor their paths in its mounts', async () => {
    await using box = await remoteSandbox(planted(), {})
    const seen = await box.sh(`${read}; ls -A /usr/local/etc /usr/etc /usr/src; cat ${SHOWN}`)
    expect(seen.out.split(SECRET)).toHaveLength(2)
    expect(seen.out).toContain(SECRET)
    expect((await box.sh('echo x > /usr/local/etc/new; echo $?')).out).not.toBe('0')
  })

  it('does not see them on gVisor', async (ctx) => {
    const runtime = testedRuntime('runsc')
    const missing = await reasonToSkip('root', runtime)
    ctx.skip(missing !== undefined, missing)
    await using box = await remoteSandbox(planted(), { runtime })
    expect((await box.sh(`${read}; cat ${SHOWN}`)).out).toBe(SECRET)
  })

  it('sees shown paths but no other hidden ones', async () => {
    const options = { hide: [dirname(SHOWN)], show: ['/usr/local/etc'] }
    await using box = await remoteSandbox(planted(), { hostImage: options })
    expect((await box.sh(`cat /usr/local/etc/npmrc`)).out).toBe(SECRET)
    expect((await box.sh(`cat ${SHOWN}; cat /usr/etc/pip.conf; true`)).out).toBe('')
  })
})
