import { type FileStat, SandboxError, type SandboxHandle } from '@sandkasten/sdk'
import type { Experimental_SandboxSession as Session } from 'ai'

type At = { path: string; abortSignal?: AbortSignal }
const at = ({ path, abortSignal: signal }: At) => [path, { signal }] as const
const shell = ({ command, workingDirectory: cwd, env, abortSignal: signal }: Parameters<Session['run']>[0]) =>
  ({ cmd: 'sh', args: ['-c', command], cwd, env, signal }) as const
const absent = (error: unknown) => (SandboxError.is(error, 'file_not_found') ? null : Promise.reject(error))
const real = (found: FileStat) => ({ ...found, type: found.type === 'symlink' ? 'other' : found.type })

/** A sandbox of any provider as the AI SDK's session, for `experimental_sandbox`. */
export function sessionOf(sandbox: SandboxHandle, description: string): Session {
  const { files } = sandbox
  const write = ({ content, ...file }: At & { content: string | Uint8Array | ReadableStream<Uint8Array> }) =>
    files.writeFile(file.path, content, { signal: file.abortSignal })
  async function spawn(line: Parameters<Session['spawn']>[0]) {
    const it = await sandbox.spawn({ ...shell(line), stdin: line.stdin ? 'pipe' : undefined })
    const kill = async () => void (await it.kill('SIGKILL'))
    const wait = () => it.wait({ signal: line.abortSignal })
    const stdin = new WritableStream({ write: (data) => it.writeStdin(data), close: () => it.closeStdin() })
    return { pid: it.pid, stdout: it.stdout(), stderr: it.stderr(), wait, kill, ...(line.stdin && { stdin }) }
  }
  return {
    ...{ description, writeFile: write, writeBinaryFile: write, writeTextFile: write },
    run: (line) => sandbox.runCommand(shell(line)),
    spawn: spawn as Session['spawn'],
    readFile: (file) => files.readStream(...at(file)).catch(absent),
    readBinaryFile: (file) => files.readFileOrNull(...at(file)),
    readTextFile: async ({ encoding, startLine = 1, endLine, ...file }) => {
      const bytes = await files.readFileOrNull(...at(file))
      const lines = bytes && new TextDecoder(encoding).decode(bytes).split(/(?<=\n)/)
      return lines?.slice(startLine - 1, endLine).join('') ?? null
    },
    stat: (file) => files.stat(...at(file)).then(real, absent),
    listDirectory: (folder) => files.list(...at(folder)).catch(absent),
    deleteFile: async (file) => (await files.rm(...at(file)).then(() => true, absent)) ?? false,
  }
}
