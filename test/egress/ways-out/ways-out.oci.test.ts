import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import { waysOutOf } from './kit.ts'

waysOutOf({ name: 'oci', missing: await reasonToSkip(), hasBare: true })
