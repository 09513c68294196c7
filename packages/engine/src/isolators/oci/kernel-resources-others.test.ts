import { describe } from 'vitest'
import { kernelResources } from '../testing/kernel-resources.ts'
import { reasonToSkip } from './testing/bench.ts'
import { openCage } from './testing/cage.ts'
import { testedRuntime } from './testing/runtimes.ts'

describe('on runc', async () => {
  kernelResources(() => openCage('runc'), await reasonToSkip('root', 'runc'))
})

describe('on runsc', async () => {
  kernelResources(() => openCage('runsc'), await reasonToSkip('root', testedRuntime('runsc')))
})
