import { refusedCalls } from '../testing/escape-calls.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'

refusedCalls(openCage, await reasonToSkip('anyone'))
