/** Bare processes of this machine, without any isolation. */
import { timed } from '../measure.ts'
import { serve } from '../worker.ts'
import { runBare } from './spawn.ts'

serve({
  // As in Node's documentation: pipes, and the event `close`.
  command: async () => ({ ms: await timed(() => runBare('pipe', false)) }),
  // The same, with its output collected, which is what `runCommand` gives.
  output: async () => ({ ms: await timed(() => runBare('pipe', true)) }),
  // Without pipes: nobody could read its output.
  silent: async () => ({ ms: await timed(() => runBare('ignore', false)) }),
})
