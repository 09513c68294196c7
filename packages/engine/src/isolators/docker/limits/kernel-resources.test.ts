import { describe } from 'vitest'
import { kernelResources } from '../../testing/kernel-resources.ts'
import { openDockerCage } from '../testing/cage.ts'
import { dockerMissing, podmanMissing } from '../testing/daemons.ts'

describe('kernel resources of Docker containers', () => {
  kernelResources(() => openDockerCage('docker'), dockerMissing())
})

describe('kernel resources of Podman containers', () => {
  kernelResources(() => openDockerCage('podman'), podmanMissing())
})
