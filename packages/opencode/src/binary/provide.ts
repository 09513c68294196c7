import { randomBytes } from 'node:crypto'
import { type SandboxCore, SandboxError } from '@sandkasten/sdk'
import type { Agent } from '../agents/index.ts'
import type { BootstrapProgress } from '../bootstrap/progress.ts'
import type { Redact } from '../redact.ts'
import { givenBinary, type HostBinary, installedBinary } from './host-binary.ts'
import type { Inspection } from './inspect.ts'

export interface ProvideOptions {
  readonly agent: Agent
  readonly version: string
  /** The caller's own program on this machine. */
  readonly binary: string | undefined
  readonly env: Readonly<Record<string, string>>
  readonly redact: Redact
  readonly signal: AbortSignal
  readonly report: (progress: BootstrapProgress) => void
}

export interface ProvidedBinary {
  readonly path: string
  /** Where it comes from. */
  readonly from: 'sandbox' | 'host' | 'npm'
}

/** Returns the program of this version in the sandbox: found there, copied from this machine, or installed by npm. */
export async function provideBinary(
  handle: SandboxCore,
  sandbox: Inspection,
  options: ProvideOptions,
): Promise<ProvidedBinary> {
  const { agent, version, binary } = options
  if (binary !== undefined) {
    const given = await givenBinary(binary, agent, sandbox)
    const same = sandbox.found.find(({ bytes }) => bytes === given.bytes)
    if (same && (await versionOf(handle, same.path, options)) === version)
      return { path: same.path, from: 'sandbox' }
    const path = await copyIn(handle, sandbox, given, options)
    await requireVersion(handle, path, options)
    return { path, from: 'host' }
  }
  const installed = installedBinary(agent, version, sandbox)
  for (const { path, bytes } of sandbox.found) {
    // Starting the program to ask for its version takes a second. The server reports its version anyway.
    const isSame = agent.server !== undefined && bytes === installed?.bytes
    if (isSame || (await versionOf(handle, path, options)) === version) return { path, from: 'sandbox' }
  }
  if (installed) return { path: await copyIn(handle, sandbox, installed, options), from: 'host' }
  return { path: await installWithNpm(handle, sandbox, options), from: 'npm' }
}

async function copyIn(
  handle: SandboxCore,
  sandbox: Inspection,
  { file, bytes }: HostBinary,
  { agent, signal, report }: ProvideOptions,
): Promise<string> {
  const folder = `${sandbox.home}/.local/bin`
  const path = `${folder}/${agent.program}`
  const draft = `${folder}/.${agent.program}-${randomBytes(8).toString('hex')}`
  report({
    stage: 'copy',
    message: `Copies ${agent.title} (${Math.round(bytes / 1e6)} MB) into the sandbox.`,
  })
  try {
    await handle.uploadFile(file, draft, { readOnly: true, signal })
    const { size, mode } = await handle.files.stat(draft, { signal })
    if (size !== bytes)
      throw new SandboxError('provider_error', `The copy of ${agent.title} has ${size} of ${bytes} bytes.`, {
        provider: handle.provider,
        sandboxId: handle.sandboxId,
        retryable: true,
        hint: 'Try again.',
      })
    // A file that the provider shares cannot be changed, and can be run.
    if (((mode ?? 0) & 0o555) !== 0o555) await handle.files.chmod(draft, 0o755, { signal })
    // Atomic: a program of the same name that runs keeps its file.
    await handle.files.rename(draft, path, { signal })
    return path
  } catch (error) {
    await handle.files.rm(draft, { force: true, signal: AbortSignal.timeout(cleanUpMs) }).catch(() => {})
    throw error
  }
}

async function installWithNpm(
  handle: SandboxCore,
  sandbox: Inspection,
  { agent, version, env, redact, signal, report }: ProvideOptions,
): Promise<string> {
  const wanted = `${agent.package}@${version}`
  const here = `npm install ${wanted}`
  if (!sandbox.tools.has('npm'))
    throw new SandboxError(
      'command_not_found',
      `${agent.title} ${version} is neither in the sandbox nor on this machine, and the sandbox has no npm.`,
      {
        provider: handle.provider,
        sandboxId: handle.sandboxId,
        hint: `Install it on this machine (${here}), or pass \`binary\`.`,
      },
    )
  report({ stage: 'install', message: `Installs ${wanted} with npm in the sandbox.` })
  const prefix = `${sandbox.home}/.local`
  const args = ['install', '--global', '--prefix', prefix, '--no-audit', '--no-fund', ...npmRetries, wanted]
  const { exitCode, stdout, stderr } = await handle.runCommand({
    cmd: 'npm',
    args,
    env,
    signal,
    maxOutputBytes: 262_144,
  })
  if (exitCode !== 0)
    throw new SandboxError(
      'unavailable',
      `Failed to install ${agent.program}: npm ended with exit code ${exitCode}.\n${redact(tails(stdout, stderr))}`,
      {
        provider: handle.provider,
        sandboxId: handle.sandboxId,
        hint: `Install it on this machine (${here}), which copies it into the sandbox, or let the sandbox reach npm’s registry.`,
      },
    )
  const path = `${prefix}/bin/${agent.program}`
  await requireVersion(handle, path, { agent, version, env, signal })
  return path
}

type VersionOptions = Pick<ProvideOptions, 'agent' | 'version' | 'env' | 'signal'>

async function requireVersion(handle: SandboxCore, path: string, options: VersionOptions): Promise<void> {
  const { agent, version } = options
  const found = await versionOf(handle, path, options)
  if (found === version) return
  const says = found === undefined ? 'does not report a version' : `reports version ${found}`
  throw new SandboxError(
    'conflict',
    `${path} in the sandbox ${says}, and ${agent.title} ${version} is needed.`,
    {
      provider: handle.provider,
      sandboxId: handle.sandboxId,
      hint: 'Pass its version, or another `binary`.',
    },
  )
}

/** Undefined if the program does not start, or prints something else. */
async function versionOf(
  handle: SandboxCore,
  path: string,
  { agent, env, signal }: Omit<VersionOptions, 'version'>,
): Promise<string | undefined> {
  try {
    const { exitCode, stdout } = await handle.runCommand({
      cmd: path,
      args: agent.versionArgs,
      env,
      signal,
      timeoutMs: versionMs,
      maxOutputBytes: 65_536,
    })
    return exitCode === 0 ? /^v?(\d+\.\d+\.\d+[\w.+-]*)/.exec(stdout.trim())?.[1] : undefined
  } catch (error) {
    if (SandboxError.is(error, 'command_not_found', 'permission_denied', 'provider_error')) return undefined
    throw error
  }
}

function tails(stdout: string, stderr: string): string {
  return [stdout, stderr]
    .map((text) => text.trim().slice(-tailLength))
    .join('\n')
    .trim()
}

/** npm’s own pauses of up to a minute would hide for long that a sandbox has no network. */
const npmRetries = ['--fetch-retry-mintimeout', '1000', '--fetch-retry-maxtimeout', '5000']
const versionMs = 30_000
const cleanUpMs = 10_000
const tailLength = 2000
