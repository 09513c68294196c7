import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'

const root = path.resolve(import.meta.dirname, '../..')
const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-install-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const skipped =
  process.getuid?.() === 0 && existsSync('/usr/bin/apt-get') && existsSync('/usr/bin/script')
    ? undefined
    : 'needs root on Debian, and script(1)'

/** A double of apt, which would change the machine: records its arguments and knows two versions of Rust. */
const bin = path.join(folder, 'bin')
const calls = path.join(folder, 'calls')
mkdirSync(bin)
function stub(name: string, text: string): void {
  writeFileSync(path.join(bin, name), `#!/bin/sh\n${text}\n`)
  chmodSync(path.join(bin, name), 0o755)
}
const policy = '/usr/sbin/policy-rc.d'
stub(
  'apt-get',
  `echo "$@" >> ${calls}
case "$*" in
  *--simulate*) echo 'Remv cargo [0.66.0]' ;;
  install*) [ "$POLICY" ] && { ${policy}; echo "policy $?" >> ${calls}; }; [ "$KILLED" ] && kill -9 $PPID ;;
esac
true`,
)
stub(
  'apt-cache',
  `case "$2" in *-web) echo '  Candidate: 1.96.0+dfsg1-1~deb12u2';; *) echo '  Candidate: 1.63.0+dfsg1-2';; esac`,
)
symlinkSync(process.execPath, path.join(bin, 'node'))
const oldRust = path.join(folder, 'old')
mkdirSync(oldRust)
for (const program of ['cargo', 'rustc']) {
  writeFileSync(path.join(oldRust, program), `#!/bin/sh\necho ${program} 1.63.0\n`)
  chmodSync(path.join(oldRust, program), 0o755)
}

const driver = `
  import { installMissing, missingRust } from '${root}/scripts/install.ts'
  const rust = await missingRust({ usualFolders: [] })
  const crun = { packages: ['crun'], why: 'isolated sandboxes (isolator oci)' }
  process.exitCode = await installMissing([crun, rust], { command: 'npm start', yes: process.argv[2] === '--yes' })
`
const driverFile = path.join(folder, 'driver.ts')
writeFileSync(driverFile, driver)

const unpackFile = path.join(folder, 'unpack.ts')
writeFileSync(
  unpackFile,
  `import { unpack } from '${root}/scripts/prepare.ts'\nprocess.exitCode = await unpack(process.argv[2])`,
)

async function install(how: { terminal: boolean; answer?: string; args?: string[]; file?: string }) {
  const node = [process.execPath, how.file ?? driverFile, ...(how.args ?? [])]
  const env = { ...process.env, PATH: `${bin}:${oldRust}:/nowhere`, NODE_NO_WARNINGS: '1' }
  const [program, args] = how.terminal
    ? ['/usr/bin/script', ['-qefc', node.join(' '), '/dev/null']]
    : [node[0]!, node.slice(1)]
  const child = spawn(program, args as string[], { env: { ...env, SHELL: '/bin/sh' } })
  let said = ''
  child.stdin.on('error', () => {})
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (data) => {
      said += data
      if (said.includes('[Y/n]') && how.answer !== undefined) {
        child.stdin.write(how.answer)
        delete how.answer
      }
    })
  const [code] = await once(child, 'close')
  return {
    code,
    said: said.replaceAll('\r', ''),
    calls: existsSync(calls) ? readFileSync(calls, 'utf8') : '',
  }
}

const installed = /^install -y .*crun cargo-web rustc-web$/m

describe('missing packages', () => {
  beforeEach(({ skip }) => {
    if (skipped) skip(skipped)
    rmSync(calls, { force: true })
  })

  it('are named with their reason, and installed if there is no terminal', async () => {
    const { code, said, calls } = await install({ terminal: false })
    expect(code).toBe(0)
    expect(said).toMatch(/crun +isolated sandboxes/)
    expect(said).toMatch(
      /cargo-web rustc-web +Rust 1\.\d+ or newer.*this machine has only .*old \(1\.63\.0\)/,
    )
    expect(said).toContain('They replace: cargo')
    expect(said).toContain('no terminal to ask on')
    expect(calls).toMatch(installed)
  })

  it.each(['\r', 'y\r', 'YES\r'])('are installed after the answer %j on a terminal', async (answer) => {
    const { said, calls } = await install({ terminal: true, answer })
    expect(said).toContain('Install them now? [Y/n]')
    expect(calls).toMatch(installed)
  })

  it.each(['n\r', 'what\r', '\x04'])('are not installed after %j, and named again', async (answer) => {
    const { code, said, calls } = await install({ terminal: true, answer })
    expect(code).toBe(0)
    expect(said).toContain('Not installed. This machine still lacks:')
    expect(said).toContain('apt-get install crun cargo-web rustc-web')
    expect(calls).not.toMatch(installed)
  })

  it('are not installed after Ctrl-C, which ends the command', async () => {
    const { code, calls } = await install({ terminal: true, answer: '\x03' })
    expect(code).toBe(130)
    expect(calls).not.toMatch(installed)
  })

  it('are installed on a terminal without a question with --yes', async () => {
    const { said, calls } = await install({ terminal: true, args: ['--yes'] })
    expect(said).not.toContain('[Y/n]')
    expect(calls).toMatch(installed)
  })

  it('that apt does not provide stop the tests, with the place where they are expected', async () => {
    const { code, said } = await install({ terminal: false, file: unpackFile, args: [folder] })
    expect(code).toBe(1)
    expect(said).toContain('apt-get cannot download docker-registry libfaketime busybox-static.')
    expect(said).toContain(`an image with only busybox (${folder}/bin/busybox)`)
  })

  /** In a mount namespace with an empty `/usr/sbin`: this machine's own policy is neither used nor changed. */
  async function policyOf(env: Record<string, string>) {
    const inside = `/bin/mount -t tmpfs none /usr/sbin && { "$0" "$1"; [ ! -e ${policy} ] && echo none || { ${policy}; echo "exit $?"; }; }`
    const args = ['--mount', '/bin/sh', '-c', inside, process.execPath, driverFile]
    const child = spawn('/usr/bin/unshare', args, {
      env: { ...process.env, PATH: `${bin}:${oldRust}:/nowhere`, POLICY: '1', ...env },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    let after = ''
    child.stdout.on('data', (data) => {
      after += data
    })
    await once(child, 'close')
    const during = /^policy (\d+)$/m.exec(readFileSync(calls, 'utf8'))?.[1]
    return { during, after: after.trim().split('\n').at(-1) }
  }

  it('keeps services from starting only while it is installed', async () => {
    expect(await policyOf({})).toEqual({ during: '101', after: 'none' })
  })

  it('lets services start after an install that was killed', async () => {
    expect(await policyOf({ KILLED: '1' })).toEqual({ during: '101', after: 'exit 0' })
  })
})
