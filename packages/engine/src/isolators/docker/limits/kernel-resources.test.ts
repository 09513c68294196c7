import { describe } from 'vitest'
import { kernelResources } from '../../testing/kernel-resources.ts'
import { openDockerCage } from '../testing/cage.ts'
import { dockerMissing, podmanMissing } from '../testing/daemons.ts'

describe('kernel resources of containers of Docker', () => {
  kernelResources(() => openDockerCage('docker'), dockerMissing())
})

describe('kernel resources of containers of Podman', () => {
  kernelResources(() => openDockerCage('podman'), podmanMissing())
})
