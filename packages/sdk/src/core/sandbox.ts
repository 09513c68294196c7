import { SandboxError } from '../errors.ts'
import { abortedError, onAbort, throwIfAborted } from '../shared/calls/abort.ts'
import { afterStart, maybeDone } from '../shared/calls/maybe-done.ts'
import { withOutput } from '../shared/output/partial.ts'
import type {
  Ability,
  Bytes,
  BytesSource,
  CallOptions,
  Capabilities,
  CommandResult,
  DetachedCommandOptions,
  EndpointOptions,
  ForkOptions,
  Network,
  OpenShellOptions,
  OpenTerminalOptions,
  ProcessHandle,
  ProcessInfo,
  RestrictedSandbox,
  RunCommandOptions,
  SandboxEndpoint,
  SandboxFiles,
  SandboxHandle,
  SandboxInfo,
  SandboxShell,
  SandboxStatus,
  SandboxTerminal,
  SnapshotOptions,
  SpawnOptions,
  UploadFileOptions,
} from '../spec/index.ts'
import { defaultMaxOutputBytes, OutputCollector, type OutputListeners } from './collect.ts'
import { checkRunOptions, checkSpawnOptions, processSpec, withLineHint } from './command-spec.ts'
import type { FilesDriver, ProcessDriver, SandboxDriver } from './driver.ts'
import { endOnAbort } from './end-on-abort.ts'
import { checkProtocol, withProtocol } from './endpoint.ts'
import { DriverFiles } from './files.ts'
import { checkNetwork } from './network/check.ts'
import { withPathHints } from './path-hints.ts'
import { SandboxProcess } from './process.ts'
import { restrict } from './restricted.ts'
import { withPartialOutput } from './shell-output.ts'
import { unsupported } from './supports.ts'
import { download, upload } from './transfer.ts'
import {
  checkCommand,
  checkCount,
  checkEnv,
  checkKnown,
  checkMs,
  checkName,
  checkPath,
  checkPort,
  invalid,
} from './validate.ts'

export interface SandboxOwner<C extends Capabilities = Capabilities> {
  readonly provider: string
  readonly capabilities: C
}

/**
 * Implements the contract over a driver, with the methods of all abilities. The provider's type hides the missing
 * ones; calling one throws `unsupported` before any work.
 */
export class DriverSandbox<C extends Capabilities = Capabilities> implements SandboxHandle {
  readonly id: string
  readonly sandboxId: string
  readonly provider: string
  readonly name?: string
  readonly capabilities: C
  readonly workdir: string
  readonly writablePaths?: readonly string[]
  readonly files: SandboxFiles
  readonly #driver: SandboxDriver
  readonly #files: FilesDriver
  readonly #owner: SandboxOwner<C>

  constructor(driver: SandboxDriver, owner: SandboxOwner<C>) {
    this.#driver = driver
    this.#owner = owner
    this.provider = owner.provider
    this.sandboxId = driver.sandboxId
    this.id = `${owner.provider}:${driver.sandboxId}`
    if (driver.name !== undefined) this.name = driver.name
    this.capabilities = owner.capabilities
    this.workdir = driver.workdir
    if (driver.writablePaths !== undefined) this.writablePaths = Object.freeze([...driver.writablePaths])
    this.#files = withPathHints(driver)
    this.files = new DriverFiles(this.#files, owner)
  }

  get ports(): readonly number[] {
    return Object.freeze([...(this.#driver.ports ?? [])])
  }

  get network(): Network | undefined {
    return this.#driver.network
  }

  async status(options: CallOptions = {}): Promise<SandboxStatus> {
    return (await this.info(options)).status
  }

  async info(options: CallOptions = {}): Promise<SandboxInfo> {
    throwIfAborted(options.signal)
    return this.#driver.info(options)
  }

  runCommand(options: DetachedCommandOptions): Promise<ProcessHandle>
  runCommand(options: RunCommandOptions): Promise<CommandResult>
  async runCommand(
    options: RunCommandOptions | DetachedCommandOptions,
  ): Promise<CommandResult | ProcessHandle> {
    if (options?.detached) return this.spawn(options)
    checkRunOptions(options)
    const { onStdout, onStderr, maxOutputBytes, outputBudget, signal } = options
    const collector = new OutputCollector({
      maxBytes:
        maxOutputBytes === undefined
          ? defaultMaxOutputBytes
          : checkCount(maxOutputBytes, 'maxOutputBytes', 2 ** 30),
      onStdout,
      onStderr,
      outputBudget,
    })
    const input = new InputErrors()
    const process = await this.#spawn(options, input)
    // On cancellation the program and its descendants are killed before the call rejects.
    let killed: Promise<unknown> | undefined
    const forget = onAbort(signal, () => {
      killed = process.kill('SIGKILL', {}).catch(() => {})
    })
    try {
      const result = await collector.read(process)
      if (signal?.aborted)
        throw withOutput(abortedError(signal, `The command ${options.cmd}`), collector.partial())
      if (input.error !== undefined) throw input.error
      return result
    } catch (error) {
      // A listener that throws also ends the command: its output has no reader left.
      if (!killed) await process.kill('SIGKILL', {}).catch(() => {})
      throw afterStart(error)
    } finally {
      forget()
      await killed
    }
  }

  async spawn(options: SpawnOptions): Promise<ProcessHandle> {
    checkSpawnOptions(options)
    const process = await this.#spawn(options)
    const { onStdout, onStderr, signal } = options
    if (!signal) return this.#wrap(process, { onStdout, onStderr })
    if (signal.aborted) {
      await process.kill('SIGKILL', {}).catch(() => {})
      throw abortedError(signal, `The command ${options.cmd}`)
    }
    return this.#wrap(endOnAbort(process, signal), { onStdout, onStderr })
  }

  async readFile(remotePath: string, options: CallOptions = {}): Promise<Bytes> {
    return this.files.readFile(remotePath, { signal: options.signal })
  }

  async writeFile(remotePath: string, content: BytesSource, options: CallOptions = {}): Promise<void> {
    await this.files.writeFile(remotePath, content, { signal: options.signal })
  }

  async uploadFile(localPath: string, remotePath: string, options: UploadFileOptions = {}): Promise<void> {
    checkKnown(options, ['readOnly', 'signal'], 'uploadFile()')
    const { readOnly = false, signal } = options
    if (typeof readOnly !== 'boolean') throw invalid('`readOnly` must be true or false.')
    const [from, to] = [checkPath(localPath, 'localPath'), checkPath(remotePath, 'remotePath')]
    throwIfAborted(signal)
    if (readOnly && (await this.#files.shareFile?.(from, to, { signal }))) return
    await upload(this.files, from, to, { signal })
  }

  async downloadFile(remotePath: string, localPath: string, options: CallOptions = {}): Promise<void> {
    await download(
      this.files,
      checkPath(remotePath, 'remotePath'),
      checkPath(localPath, 'localPath'),
      options,
    )
  }

  restricted(): RestrictedSandbox<C> {
    return restrict(this)
  }

  async destroy(options: CallOptions = {}): Promise<boolean> {
    throwIfAborted(options.signal)
    return this.#driver.destroy(options)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#driver.stop || !this.capabilities.stop) return
    try {
      await this.#driver.stop({})
    } catch (error) {
      // Gone, or restarted by another caller: nothing of this incarnation is left to stop.
      if (!SandboxError.is(error, 'not_found', 'interrupted')) throw error
    }
  }

  async getProcess(execId: string, options: CallOptions = {}): Promise<ProcessHandle> {
    const driver = this.#need('reattach', 'getProcess', options)
    return this.#wrap(await driver.getProcess(checkPath(execId, 'execId'), options))
  }

  async listProcesses(options: CallOptions = {}): Promise<ProcessInfo[]> {
    return this.#need('reattach', 'listProcesses', options).listProcesses(options)
  }

  async openShell(options: OpenShellOptions = {}): Promise<SandboxShell> {
    const driver = this.#need('shell', 'openShell')
    checkKnown(options, ['name', 'cwd', 'env', 'login', 'signal'], 'openShell()')
    if (options.login !== undefined && typeof options.login !== 'boolean')
      throw invalid('`login` must be true or false.')
    if (options.name !== undefined) checkName(options.name)
    if (options.cwd !== undefined) checkPath(options.cwd, 'cwd')
    throwIfAborted(options.signal)
    const given = { ...options, env: checkEnv(options.env) }
    return withPartialOutput(await driver.openShell(given, { signal: options.signal }))
  }

  async openTerminal(options: OpenTerminalOptions = {}): Promise<SandboxTerminal> {
    const driver = this.#need('terminal', 'openTerminal')
    checkKnown(
      options,
      ['cmd', 'args', 'env', 'cwd', 'cols', 'rows', 'terminalId', 'signal'],
      'openTerminal()',
    )
    const cols = checkCount(options.cols ?? 80, 'cols', 1000)
    const rows = checkCount(options.rows ?? 24, 'rows', 1000)
    if (options.cmd !== undefined) checkCommand(options.cmd, options.args)
    if (options.cwd !== undefined) checkPath(options.cwd, 'cwd')
    throwIfAborted(options.signal)
    return driver.openTerminal(
      { ...options, cols, rows, env: checkEnv(options.env) },
      { signal: options.signal },
    )
  }

  async getEndpoint(port: number, options: EndpointOptions = {}): Promise<SandboxEndpoint> {
    const driver = this.#need('ports', 'getEndpoint', options)
    checkKnown(options, ['protocol', 'signal'], 'getEndpoint()')
    const [checked, protocol] = [checkPort(port), checkProtocol(options.protocol)]
    const endpoint = await driver.getEndpoint(checked, { signal: options.signal })
    return withProtocol(endpoint, protocol, this.provider)
  }

  async getUrl(port: number, options: EndpointOptions = {}): Promise<string> {
    return (await this.getEndpoint(port, options)).url
  }

  async stop(options: CallOptions = {}): Promise<void> {
    await this.#need('stop', 'stop', options).stop(options)
  }

  async start(options: CallOptions = {}): Promise<void> {
    await this.#need('stop', 'start', options).start(options)
  }

  async pause(options: CallOptions = {}): Promise<void> {
    await this.#need('pause', 'pause', options).pause(options)
  }

  async resume(options: CallOptions = {}): Promise<void> {
    await this.#need('pause', 'resume', options).resume(options)
  }

  async snapshot(options: SnapshotOptions = {}): Promise<{ snapshotId: string }> {
    const driver = this.#need('snapshot', 'snapshot')
    checkKnown(options, ['name', 'signal'], 'snapshot()')
    if (options.name !== undefined) checkName(options.name)
    throwIfAborted(options.signal)
    return driver.snapshot(options.name, { signal: options.signal })
  }

  async fork(options: ForkOptions = {}): Promise<Array<DriverSandbox<C> | Error>> {
    const driver = this.#need('fork', 'fork')
    checkKnown(options, ['count', 'signal'], 'fork()')
    throwIfAborted(options.signal)
    const forks = await driver.fork(checkCount(options.count ?? 1, 'count', 1000), { signal: options.signal })
    return forks.map((fork) => (fork instanceof Error ? fork : new DriverSandbox(fork, this.#owner)))
  }

  async extendTimeout(ms: number, options: CallOptions = {}): Promise<void> {
    await this.#need('lifetime', 'extendTimeout', options).extendTimeout(checkMs(ms, 'ms'), options)
  }

  async refreshActivity(options: CallOptions = {}): Promise<void> {
    await this.#need('activity', 'refreshActivity', options).refreshActivity(options)
  }

  async setNetwork(network: Network, options: CallOptions = {}): Promise<void> {
    const driver = this.#need('egress', 'setNetwork', options)
    await driver.setNetwork(checkNetwork(network, this.#owner), options)
  }

  #need<M extends keyof SandboxDriver>(
    ability: Ability,
    method: M,
    call: CallOptions = {},
  ): SandboxDriver & Required<Pick<SandboxDriver, M>> {
    if (!this.capabilities[ability]) throw unsupported(this.#owner, ability)
    throwIfAborted(call.signal)
    if (!this.#driver[method]) {
      throw new SandboxError(
        'internal',
        `The provider “${this.provider}” declares “${ability}” but does not implement ${String(method)}.`,
      )
    }
    return this.#driver as SandboxDriver & Required<Pick<SandboxDriver, M>>
  }

  #wrap(process: ProcessDriver, listeners?: OutputListeners): ProcessHandle {
    return new SandboxProcess(process, this.#owner, listeners)
  }

  async #spawn(options: SpawnOptions, input?: InputErrors): Promise<ProcessDriver> {
    const checked = processSpec(options, input !== undefined)
    const spec =
      input && typeof checked.stdin !== 'string' ? { ...checked, stdin: input.watch(checked.stdin) } : checked
    if (spec.stdin === 'pipe' && !this.capabilities.stdin) throw unsupported(this.#owner, 'stdin')
    if (spec.merged && !this.capabilities.mergedOutput) throw unsupported(this.#owner, 'mergedOutput')
    throwIfAborted(options.signal, `The command ${spec.cmd}`)
    try {
      return await this.#driver.spawn(spec, { signal: options.signal })
    } catch (caught) {
      const error = withLineHint(caught, spec)
      // With an id, a repeat finds the first process.
      throw spec.execId === undefined ? maybeDone(error) : error
    }
  }
}

/** Remembers that the source of a command's input failed, which invalidates the command's result. */
class InputErrors {
  error: unknown

  async *watch(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    try {
      yield* chunks
    } catch (error) {
      this.error = error
      throw error
    }
  }
}
