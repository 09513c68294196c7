import { describe } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'

const reason = await reasonToSkip('root', 'runc')

describe('escapes from a sandbox on runc', () => {
  escapeCorpus(() => openCage('runc'), reason)
})

describe('system calls on runc', () => {
  refusedCalls(() => openCage('runc'), reason)
})
