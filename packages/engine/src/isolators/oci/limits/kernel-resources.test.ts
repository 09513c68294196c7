import { kernelResources } from '../../testing/kernel-resources.ts'
import { reasonToSkip } from '../testing/bench.ts'
import { openCage } from '../testing/cage.ts'

kernelResources(openCage, await reasonToSkip('anyone'))
