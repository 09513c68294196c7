import { describe } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'
import { testedRuntime } from './testing/runtimes.ts'

const reason = await reasonToSkip('root', testedRuntime('runsc'))

describe('escapes from a sandbox on gVisor', () => {
  escapeCorpus(() => openCage('runsc'), reason)
})

describe('system calls on gVisor', () => {
  refusedCalls(() => openCage('runsc'), reason)
})
