import { kitOn } from '../testing/docker-kit.ts'

/** Everything over the daemon's own connection: what could be lost, cut or held up on that way. The rest is the same as on the socket. */
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
