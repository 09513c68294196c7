import { SandboxError } from '@sandkasten/sdk'
import { z } from 'zod'
import type { LiveCommand } from '../../sessions/index.ts'

export const stdinBody = z.looseObject({
  data: z.base64().default(''),
  offset: z.int().nonnegative().optional(),
  close: z.boolean().default(false),
})

/**
 * The stdin of commands that were started with `attachStdin`. The SDK sends the `offset` of its bytes and may repeat a
 * request, so bytes that were already written are skipped. Only this process knows the written bytes, so input cannot
 * continue after a restart of the daemon.
 *
 * Calls may interleave; calls for one command take turns.
 */
export class CommandInputs {
  readonly #inputs = new Map<string, { written: number; closed: boolean; turn: Promise<unknown> }>()

  attach({ row, done }: LiveCommand): void {
    this.#inputs.set(row.exec_id, { written: 0, closed: false, turn: Promise.resolve() })
    void done.then(() => this.#inputs.delete(row.exec_id))
  }

  /** Returns the total of bytes that were written to the command. */
  write(command: LiveCommand, { data, offset, close }: z.infer<typeof stdinBody>): Promise<number> {
    const input = this.#inputs.get(command.row.exec_id)
    if (!input || !command.write || !command.closeStdin) throw unavailable()
    const work = async () => {
      const at = offset ?? input.written
      if (at > input.written)
        throw new SandboxError('invalid_argument', `The input has ${input.written} bytes; ${at} were given.`)
      const rest = Buffer.from(data, 'base64').subarray(input.written - at)
      if (rest.length > 0) {
        if (input.closed) throw unavailable()
        await command.write!(rest).catch(refused)
        input.written += rest.length
      }
      if (close && !input.closed) {
        await command.closeStdin!().catch(refused)
        input.closed = true
      }
      return input.written
    }
    const result = input.turn.then(work)
    input.turn = result.catch(() => {})
    return result
  }
}

/** The SDK treats this as a closed pipe. */
export function unavailable(): SandboxError {
  return new SandboxError('invalid_argument', 'The command does not accept input, or its input is closed.', {
    details: { vercelCode: 'command_stdin_unavailable' },
    hint: 'Start it with attachStdin, and write while it runs.',
  })
}

function refused(error: unknown): never {
  throw SandboxError.is(error, 'not_found', 'invalid_argument', 'conflict', 'gone') ? unavailable() : error
}
