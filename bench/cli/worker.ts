/** Runs programs for the benchmark, from a small process in a mount namespace of its own. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { timed } from '../measure.ts'
import { serve } from '../worker.ts'

const env = { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: process.argv[2] }

serve({
  run: async (program, ...args) => ({
    ms: await timed(() => promisify(execFile)(program!, args, { env, cwd: process.argv[2] })),
  }),
})
