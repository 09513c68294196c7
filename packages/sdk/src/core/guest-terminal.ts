import { SandboxError } from '../errors.ts'
import { type Launch, terminalScript } from '../shared/guest/launch.ts'
import type { GuestLink } from '../shared/guest/link.ts'
import { randomId } from '../shared/ids.ts'
import { encode } from '../shared/output/bytes.ts'
import type { CallOptions, OpenTerminalOptions, SandboxTerminal } from '../spec/index.ts'
import { startKeeper } from './guest-process.ts'
import { checkCount, invalid } from './validate.ts'

/** A pseudo-terminal of script(1), with a keeper like any program: a client can disconnect, and read it from the beginning. */
export async function openGuestTerminal(
  link: GuestLink,
  launch: Launch,
  options: OpenTerminalOptions & { cols: number; rows: number },
  call: CallOptions,
): Promise<SandboxTerminal> {
  const { terminalId = `terminal-${randomId(8)}`, cmd, args = [], cols, rows, cwd } = options
  if (!/^[A-Za-z0-9][\w.-]{0,99}$/.test(terminalId))
    throw invalid('`terminalId` must be 1 to 100 letters, digits, dots, dashes or underscores.')
  const env = { TERM: 'xterm-256color', ...launch.env }
  const script = terminalScript({ ...launch, env }, { cols, rows, args, cmd })
  // A separate namespace: a process may have the same id.
  const spec = { execId: `.t-${terminalId}`, cwd, outputBufferBytes: screenBytes }
  const { process } = await startKeeper(link, spec, { script, what: cmd ?? 'sh', flags: 'it' }, call).catch(
    (error) => {
      throw withoutScript(error, link)
    },
  )
  return {
    terminalId,
    write: (data, how = {}) => process.write(encode(data), how),
    resize: async (size, how = {}) => {
      const checked = {
        cols: checkCount(size?.cols, 'cols', 1000),
        rows: checkCount(size?.rows, 'rows', 1000),
      }
      await process.resize(checked, how)
    },
    output: ({ after = 0, signal } = {}) => process.events(after, signal),
    kill: (signal = 'SIGTERM', how = {}) => process.kill(signal, how),
    status: (how = {}) => process.status(how),
  }
}

const screenBytes = 8 * 1024 * 1024

function withoutScript(error: unknown, { provider, sandboxId, place }: GuestLink): unknown {
  if (!SandboxError.is(error, 'unsupported') || error.details.status !== 85) return error
  return new SandboxError('unsupported', `There is no script(1) ${place}, which terminals need.`, {
    provider,
    sandboxId,
    cause: error,
    hint: 'Install util-linux (on Debian `bsdutils`, on Alpine `util-linux-misc`).',
  })
}
