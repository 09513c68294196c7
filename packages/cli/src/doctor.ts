import { accessSync, constants } from 'node:fs'
import {
  DockerIsolator,
  EngineProvider,
  locateRunner,
  OciIsolator,
  type RuntimeKind,
  runtimeKinds,
  versionOf,
} from '@sandkasten/engine'

interface Finding {
  readonly what: string
  readonly ok: boolean
  readonly detail: string
  /** The exact thing to do; undefined where nothing is wrong. */
  readonly fix?: string
  /** What works less well than it could, and the exact things that would change it. */
  readonly weaker?: readonly string[]
  readonly better?: readonly string[]
}

/** What this machine can do. The exit code is 0 when a sandbox can be isolated here. */
export async function doctor({ json }: { json?: boolean }): Promise<number> {
  const oci = await lookAtOci()
  const findings: Finding[] = [
    { what: 'node', ok: true, detail: process.version },
    oci,
    ...(await Promise.all(runtimeKinds.map(lookAtRuntime))),
    await lookAtNetwork(),
    await lookAt('images: pull', 'skopeo', 'skopeo', 'images can be imported and built, not pulled'),
    await lookAt('images: build', 'mmdebstrap', 'mmdebstrap', 'images can be pulled and imported, not built'),
    await lookAtDocker(),
    { what: 'isolator process', ok: true, detail: 'always there; commands are NOT isolated' },
  ]
  if (json) {
    console.log(JSON.stringify({ isolated: oci.ok, findings }, null, 2))
    return oci.ok ? 0 : 1
  }
  for (const { what, ok, detail, fix, weaker = [], better = [] } of findings) {
    console.log(`${ok ? '✓' : '✗'} ${what}: ${detail}`)
    if (fix) console.log(`    ${fix}`)
    for (const sentence of weaker) console.log(`    weaker: ${sentence}`)
    for (const step of better) console.log(`    better: ${step}`)
  }
  console.log(
    oci.ok
      ? '\nSandboxes on this machine are isolated (oci).'
      : '\nSandboxes on this machine cannot be isolated yet.',
  )
  return oci.ok ? 0 : 1
}

async function lookAtOci(): Promise<Finding> {
  const what = 'isolator oci'
  try {
    const runner = await locateRunner({ onBuild: () => console.error('Building the runner, this once…') })
    const result = await new OciIsolator({ runner }).probe()
    if (!result.ok) return { what, ok: false, detail: result.reason, fix: result.fix }
    const { detail, weaker = [], better = [] } = result
    return { what, ok: true, detail: `${detail}; ${await tryIt()}`, weaker, better }
  } catch (error) {
    const { message, hint } = error as { message: string; hint?: string }
    return { what, ok: false, detail: message, ...(hint ? { fix: hint } : {}) }
  }
}

/** Nothing proves that it works but doing it. (A gVisor that is too old for a kernel may start, and fail as soon as a program looks at a file.) */
async function tryIt(runtime?: RuntimeKind): Promise<string> {
  const startedAt = performance.now()
  await using provider = new EngineProvider({ isolator: 'oci', ...(runtime && { oci: { runtime } }) })
  const sandbox = await provider.create()
  try {
    const { exitCode, stderr } = await sandbox.runCommand({ cmd: 'ls', args: ['-d', '/usr/bin'] })
    if (exitCode !== 0) throw new Error(`a sandbox started, but its command failed: ${stderr.trim()}`)
    return `a sandbox ran a command ${Math.round(performance.now() - startedAt)} ms after it was asked for`
  } finally {
    await sandbox.destroy()
  }
}

/** Any one of them is enough as root; an ordinary account needs crun. */
async function lookAtRuntime(kind: RuntimeKind): Promise<Finding> {
  const what = `runtime ${kind}`
  try {
    const detail = await versionOf(kind)
    return kind === 'runsc' ? await tryGvisor(what) : { what, ok: true, detail }
  } catch {
    return {
      what,
      ok: false,
      detail: 'not installed',
      fix: `For --runtime ${kind}, run: apt-get install ${kind}`,
    }
  }
}

/** Whether one works on this kernel, only trying can tell. */
async function tryGvisor(what: string): Promise<Finding> {
  const isolator = new OciIsolator({ runner: await locateRunner(), runtime: 'runsc' })
  const result = await isolator.probe().finally(() => isolator.close())
  if (!result.ok) return { what, ok: false, detail: result.reason, fix: result.fix }
  try {
    return { what, ok: true, detail: `${result.detail}; ${await tryIt('runsc')}` }
  } catch (error) {
    const fix = 'Get a newer one, and name its path: --runtime /path/to/runsc.'
    return { what, ok: false, detail: (error as Error).message, fix }
  }
}

/** Only asked, not tried: it is somebody's daemon. */
async function lookAtDocker(): Promise<Finding> {
  const what = 'isolator docker'
  try {
    const isolator = new DockerIsolator({ runner: await locateRunner(), stateFolder: '' })
    const result = await isolator.probe()
    if (!result.ok) return { what, ok: false, detail: result.reason, fix: result.fix }
    const weaker = await isolator.weaker()
    return { what, ok: true, detail: result.detail, weaker }
  } catch (error) {
    const { message, hint } = error as { message: string; hint?: string }
    return { what, ok: false, detail: message, ...(hint ? { fix: hint } : {}) }
  }
}

/** pasta opens a device that some machines keep for root. */
async function lookAtNetwork(): Promise<Finding> {
  const found = await lookAt('network open', 'pasta', 'passt', 'sandboxes can only have the network none')
  if (!found.ok || process.getuid?.() === 0) return found
  try {
    accessSync('/dev/net/tun', constants.R_OK | constants.W_OK)
    return found
  } catch {
    const detail = 'this account may not open /dev/net/tun; its sandboxes can only have the network none'
    return {
      ...found,
      ok: false,
      detail,
      fix: 'Run, as root: chmod 666 /dev/net/tun (and modprobe tun, if it is not there)',
    }
  }
}

/** A program that something optional needs. */
async function lookAt(what: string, program: string, name: string, without: string): Promise<Finding> {
  const { execFile } = await import('node:child_process')
  const found = await new Promise<boolean>((resolve) =>
    execFile(program, ['--version'], (error) => resolve(!error)),
  )
  if (found) return { what, ok: true, detail: `${program} is here` }
  const detail = `${program} is not installed; ${without}`
  return { what, ok: false, detail, fix: `Run: apt-get install ${name}` }
}
