import { describe } from 'vitest'
import { stoppedStarts } from '../../testing/stopped-start.ts'
import { reasonToSkip } from '../testing/bench.ts'
import { openCage } from '../testing/cage.ts'
import { testedRuntime } from '../testing/runtimes.ts'

describe('on crun', async () => {
  stoppedStarts(openCage, await reasonToSkip('anyone'))
})

describe('on runsc', async () => {
  stoppedStarts(() => openCage('runsc'), await reasonToSkip('root', testedRuntime('runsc')))
})
