import { describe } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { rootEscapes } from '../testing/escape-root.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'
import { testedRuntime } from './testing/runtimes.ts'

/** The whole corpus in sandboxes with `user: root`, and attempts that only such a sandbox can make. */
for (const runtime of ['crun', 'runc', 'runsc'] as const) {
  const reason = await reasonToSkip('root', testedRuntime(runtime))
  const open = () => openCage(runtime, { user: 'root' })

  describe(`escapes as root of a sandbox on ${runtime}`, () => {
    escapeCorpus(open, reason)
  })

  describe(`system calls as root of a sandbox on ${runtime}`, () => {
    refusedCalls(open, reason)
  })

  describe(`the rights of root in a sandbox on ${runtime}`, () => {
    rootEscapes(open, reason)
  })
}
