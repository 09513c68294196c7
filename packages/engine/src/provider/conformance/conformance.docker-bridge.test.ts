import { kitOn } from '../testing/docker-kit.ts'

/** Runs over the daemon's connection the tests that depend on the transport. The rest is the same as on the socket. */
kitOn('docker', 'docker, its runners bridged', {
  bridge: true,
  only: [
    'output',
    'output again and slowly',
    'stdin',
    'file content',
    'upload and download',
    'ports',
    'stop, start and pause',
    'snapshots and forks',
  ],
})
