import { describe } from 'vitest'
import { escapeCorpus } from '../testing/escape.ts'
import { refusedCalls } from '../testing/escape-calls.ts'
import { openDockerCage } from './testing/cage.ts'
import { dockerMissing, podmanMissing } from './testing/daemons.ts'

describe('escapes from a Docker container', () => {
  escapeCorpus(() => openDockerCage('docker'), dockerMissing())
})

describe('escapes from a Docker container with remapped ids', () => {
  escapeCorpus(() => openDockerCage('docker', { remap: true }), dockerMissing())
})

describe('system calls in a Docker container', () => {
  refusedCalls(() => openDockerCage('docker'), dockerMissing())
})

describe('escapes from a Podman container', () => {
  escapeCorpus(() => openDockerCage('podman'), podmanMissing())
})

describe('escapes from a Podman container with its own ids', () => {
  escapeCorpus(() => openDockerCage('podman', { remap: true }), podmanMissing())
})

describe('system calls in a Podman container', () => {
  refusedCalls(() => openDockerCage('podman'), podmanMissing())
})
