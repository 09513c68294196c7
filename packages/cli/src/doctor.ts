import { execFile } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import {
  DockerIsolator,
  daemonsHere,
  type EnginePlace,
  EngineProvider,
  type EngineProviderOptions,
  engineAt,
  locateRunner,
  OciIsolator,
  type ProbeResult,
  type RuntimeKind,
  runtimeKinds,
  versionOf,
} from '@sandkasten/engine'
import { enginePlace } from './engine-place.ts'
import type { PlaceOptions } from './options.ts'
import { tryIsolation } from './trial.ts'

export interface DoctorOptions extends PlaceOptions {
  json?: boolean
}

interface Finding {
  readonly what: string
  readonly ok: boolean
  /** False: it responds, but no trial sandbox could be started. */
  readonly tried?: false
  readonly detail: string
  /** The command that fixes it; undefined if nothing is wrong. */
  readonly fix?: string
  /** Missing isolation measures, and the commands that add them. */
  readonly weaker?: readonly string[]
  readonly better?: readonly string[]
}

/** Reports what this machine supports. The exit code is 0 if sandboxes are isolated by default. */
export async function doctor(options: DoctorOptions): Promise<number> {
  const place = await enginePlace(options)
  const oci = await lookAtOci(place)
  const runtimes: Finding[] = []
  for (const kind of runtimeKinds) runtimes.push(await lookAtRuntime(place, kind))
  const daemons = await lookAtDaemons(place)
  const findings: Finding[] = [
    { what: 'node', ok: true, detail: process.version },
    oci,
    ...runtimes,
    await lookAtNetwork(),
    await lookAt('images: pull', 'skopeo', 'skopeo', 'images can be imported and built, but not pulled'),
    await lookAt(
      'images: build',
      'mmdebstrap',
      'mmdebstrap',
      'images can be pulled and imported, but not built',
    ),
    ...daemons,
    { what: 'isolator process', ok: true, detail: 'always available; commands are NOT isolated' },
  ]
  const chosen = automatic()
  const isolated = chosen === 'docker' ? daemons.some(({ ok }) => ok) : chosen === 'oci' && oci.ok
  if (options.json) console.log(JSON.stringify({ isolated, findings }, null, 2))
  else show(findings, isolated ? `are isolated (${chosen})` : 'cannot be isolated yet')
  return isolated ? 0 : 1
}

function show(findings: readonly Finding[], verdict: string): void {
  for (const { what, ok, tried, detail, fix, weaker = [], better = [] } of findings) {
    console.log(`${ok ? '✓' : tried === false ? '?' : '✗'} ${what}: ${detail}`)
    if (fix) console.log(`    ${fix}`)
    for (const sentence of weaker) console.log(`    weaker: ${sentence}`)
    for (const step of better) console.log(`    better: ${step}`)
  }
  console.log(`\nSandboxes on this machine ${verdict}.`)
}

function automatic(): 'oci' | 'docker' | undefined {
  try {
    const { isolator } = new EngineProvider().decision
    return isolator === 'process' ? undefined : isolator
  } catch {
    return undefined
  }
}

async function lookAtOci(place: EnginePlace): Promise<Finding> {
  return trial('isolator oci', place, { isolator: 'oci' }, async (runner) =>
    new OciIsolator({ runner }).probe(),
  )
}

/** As root any runtime is enough; an ordinary account needs crun. */
async function lookAtRuntime(place: EnginePlace, kind: RuntimeKind): Promise<Finding> {
  const what = `runtime ${kind}`
  try {
    await versionOf(kind)
  } catch {
    const fix = `For --runtime ${kind}, run: apt-get install ${kind}`
    return { what, ok: false, detail: 'not installed', fix }
  }
  const found = await trial(what, place, { isolator: 'oci', oci: { runtime: kind } }, async (runner) => {
    const isolator = new OciIsolator({ runner, runtime: kind })
    return isolator.probe().finally(() => isolator.close())
  })
  if (found.ok || kind !== 'runsc') return found
  return { ...found, fix: 'Get a newer version, and pass its path: --runtime /path/to/runsc.' }
}

async function lookAtDaemons(place: EnginePlace): Promise<Finding[]> {
  const found: Finding[] = []
  for (const host of daemonsHere()) found.push(await lookAtDaemon(place, host))
  if (found.length > 0) return found
  const fix = 'For --isolator docker, start Docker or Podman, or name one with DOCKER_HOST.'
  return [{ what: 'isolator docker', ok: false, detail: 'no Docker daemon and no Podman found', fix }]
}

async function lookAtDaemon(place: EnginePlace, host: string): Promise<Finding> {
  let weaker: readonly string[] = []
  const options: EngineProviderOptions = { isolator: 'docker', docker: { host } }
  const found = await trial(`isolator docker (${host})`, place, options, async (runner) => {
    const isolator = new DockerIsolator({ runner, stateFolder: '', host })
    const result = await isolator.probe()
    if (result.ok) weaker = await isolator.weaker()
    return result
  })
  return { ...found, weaker }
}

/** Probes, then starts a sandbox: only that proves that isolation works. */
async function trial(
  what: string,
  place: EnginePlace,
  options: EngineProviderOptions,
  probe: (runner: string) => Promise<ProbeResult>,
): Promise<Finding> {
  try {
    const runner = await locateRunner({ onBuild: () => console.error('Building the runner, once…') })
    const result = await probe(runner)
    if (!result.ok) return { what, ok: false, detail: result.reason, fix: result.fix }
    const { detail, weaker = [], better = [] } = result
    return { what, ...(await startOne(detail, place, options)), weaker, better }
  } catch (error) {
    return { what, ok: false, ...said(error) }
  }
}

async function startOne(
  detail: string,
  place: EnginePlace,
  options: EngineProviderOptions,
): Promise<Omit<Finding, 'what'>> {
  await using provider = engineAt(place, options)
  const result = await tryIsolation(provider)
  if (result.ok) return { ok: true, detail: `${detail}; a sandbox ran a command after ${result.ms} ms` }
  const { detail: reason, fix } = said(result.error)
  if (result.untried) return { ok: false, tried: false, detail: `${detail}; not tried: ${reason}`, fix }
  return { ok: false, detail: `${detail}; but a sandbox does not start: ${reason}`, fix }
}

function said(error: unknown): { detail: string; fix: string } {
  const { message, hint } = error as { message: string; hint?: string }
  return { detail: message, fix: hint || 'Use another isolator, or another runtime.' }
}

/** pasta opens a device that only root can open on some machines. */
async function lookAtNetwork(): Promise<Finding> {
  const found = await lookAt('network open', 'pasta', 'passt', 'sandboxes can only use the network none')
  if (!found.ok || process.getuid?.() === 0) return found
  try {
    accessSync('/dev/net/tun', constants.R_OK | constants.W_OK)
    return found
  } catch {
    const detail = 'this account cannot open /dev/net/tun; its sandboxes can only use the network none'
    const fix = 'Run as root: chmod 666 /dev/net/tun (and modprobe tun, if it is missing)'
    return { ...found, ok: false, detail, fix }
  }
}

async function lookAt(what: string, program: string, name: string, without: string): Promise<Finding> {
  const found = await new Promise<boolean>((resolve) =>
    execFile(program, ['--version'], (error) => resolve(!error)),
  )
  if (found) return { what, ok: true, detail: `${program} is here` }
  const detail = `${program} is not installed; ${without}`
  return { what, ok: false, detail, fix: `Run: apt-get install ${name}` }
}
