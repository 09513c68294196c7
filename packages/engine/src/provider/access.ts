import type { Access } from '@sandkasten/sdk/provider'
import { type EngineExtra, homeOf } from './spec.ts'

/** What the sandbox's user may write to, as far as its options say. An image may have more such folders. */
export function accessOf(extra: EngineExtra, rootAvailable: boolean): Access {
  if (extra.user === 'root') return { writablePaths: ['/'], user: 'root', rootAvailable }
  const { image, workdir, account = 'sandbox', mounts, volumes } = extra
  const ofHost = image === 'host' || ('of' in image && image.of === 'host')
  const paths = [
    workdir,
    ...(ofHost ? [homeOf(account)] : []),
    '/tmp',
    ...(ofHost ? ['/var/tmp'] : []),
    ...[...mounts, ...volumes.map(({ readOnly = false, target }) => ({ readOnly, target }))]
      .filter(({ readOnly }) => readOnly === false)
      .map(({ target }) => target),
  ]
  return { writablePaths: [...new Set(paths)], user: 'other', rootAvailable }
}
