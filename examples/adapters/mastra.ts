import { MastraSandbox, type ExecuteCommandOptions as Options } from '@mastra/core/workspace'
import { quoteArgs, type SandboxHandle, type SandboxProvider } from '@sandkasten/sdk'

/** A sandbox of any provider for a Mastra workspace. The same id finds the same sandbox again. */
export class SandkastenSandbox extends MastraSandbox {
  readonly id: string
  readonly name = 'Sandkasten'
  readonly provider = 'sandkasten'
  status: MastraSandbox['status'] = 'pending'
  readonly #find: () => Promise<SandboxHandle>

  constructor(provider: SandboxProvider, id: string) {
    super({ name: 'Sandkasten' })
    this.id = id
    this.#find = () => provider.getOrCreate({ name: id })
  }

  override async start() {
    await this.#find()
  }
  override async destroy() {
    await (await this.#find()).destroy()
  }
  override async executeCommand(command: string, args: string[] = [], options: Options = {}) {
    await this.ensureRunning()
    const { timeout: timeoutMs, abortSignal: signal, cwd, onStdout, onStderr } = options
    const env = { ...this.getEnv(), ...options.env }
    const run = { cmd: 'sh', args: ['-c', `${command} ${quoteArgs(args)}`], env, cwd, timeoutMs, signal }
    const result = await (await this.#find()).runCommand({ ...run, onStdout, onStderr })
    return { ...result, success: result.exitCode === 0, executionTimeMs: result.durationMs }
  }
  override async writeFiles(files: Array<{ path: string; content: string | Buffer; mode?: number }>) {
    const sandbox = await this.#find()
    for (const { path, content, mode } of files) await sandbox.files.writeFile(path, content, { mode })
  }
}
