import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { rootEscapes } from '../testing/escape-root.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'
import { testedRuntime } from './testing/runtimes.ts'

/** `rootEscapes` makes folders in /usr, which the layer for root has to contain. */
const imagesFolder = mkdtempSync(join(tmpdir(), 'skt-images-'))
afterAll(() => rmSync(imagesFolder, { recursive: true, force: true }))

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
    rootEscapes(() => openCage(runtime, { user: 'root', imagesFolder }), reason)
  })
}
