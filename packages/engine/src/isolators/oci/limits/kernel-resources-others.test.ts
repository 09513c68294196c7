import { describe, expect, it } from 'vitest'
import { kernelResources } from '../../testing/kernel-resources.ts'
import { reasonToSkip } from '../testing/bench.ts'
import { openCage } from '../testing/cage.ts'
import { testedRuntime } from '../testing/runtimes.ts'

it('a sandbox with an open network has its own limits', async (ctx) => {
  const reason = await reasonToSkip()
  ctx.skip(reason !== undefined, reason)
  await using cage = await openCage()
  const { sh } = await cage.start({ network: 'open' })
  expect((await sh('cat /proc/sys/user/max_user_namespaces')).out).toBe('0')
  expect((await sh('cat /proc/sys/user/max_inotify_instances')).out).toBe('128')
})

describe('on runc', async () => {
  kernelResources(() => openCage('runc'), await reasonToSkip('root', 'runc'))
})

describe('on runsc', async () => {
  kernelResources(() => openCage('runsc'), await reasonToSkip('root', testedRuntime('runsc')))
})
