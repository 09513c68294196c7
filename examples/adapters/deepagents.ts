import { SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import { BaseSandbox, type FileOperationError } from 'deepagents'

/** A sandbox of any provider as the backend of a deep agent. */
export class SandkastenBackend extends BaseSandbox {
  readonly id: string
  readonly #sandbox: SandboxHandle
  constructor(sandbox: SandboxHandle) {
    super()
    this.id = sandbox.id
    this.#sandbox = sandbox
  }

  async execute(command: string) {
    const line = { cmd: 'sh', args: ['-c', command], output: 'merged' } as const
    const { stdout: output, exitCode, truncated } = await this.#sandbox.runCommand(line)
    return { output, exitCode, truncated }
  }

  uploadFiles(files: Array<[string, Uint8Array]>) {
    const upload = (path: string, content: Uint8Array) =>
      this.#sandbox.writeFile(path, content).then(() => null, codeOf)
    return Promise.all(files.map(async ([path, content]) => ({ path, error: await upload(path, content) })))
  }

  downloadFiles(paths: string[]) {
    const failed = (error: unknown) => ({ content: null, error: codeOf(error) })
    const download = (path: string) =>
      this.#sandbox.readFile(path).then((content) => ({ content, error: null }), failed)
    return Promise.all(paths.map(async (path) => ({ path, ...(await download(path)) })))
  }
}

function codeOf(error: unknown): FileOperationError {
  const code = SandboxError.is(error) && error.code
  if (code === 'file_not_found' || code === 'permission_denied') return code
  if (code === 'is_a_directory') return 'is_directory'
  if (code === 'invalid_argument') return 'invalid_path'
  throw error
}
