import { timed } from '../../measure.ts'
import { serve } from '../../worker.ts'
import { runBare } from './spawn.ts'

serve({
  // As in Node's documentation: pipes, and the event `close`.
  command: async () => ({ ms: await timed(() => runBare('pipe', false)) }),
  // The same with collected output, as in `runCommand`.
  output: async () => ({ ms: await timed(() => runBare('pipe', true)) }),
  // Without pipes, so the output is lost.
  silent: async () => ({ ms: await timed(() => runBare('ignore', false)) }),
})
