import { homedir } from 'node:os'
import path from 'node:path'
import { DriverProvider } from '../../core/provider.ts'
import { checkKnown } from '../../core/validate.ts'
import { SandboxError } from '../../errors.ts'
import { type LocalCapabilities, localCapabilities } from './capabilities.ts'
import { LocalDriver } from './driver.ts'
import type { LocalProviderOptions } from './options.ts'

/**
 * Sandboxes as folders on this machine, with commands as child processes. **There is no isolation**: a command can read,
 * change and reach everything that this account can. Use it for trusted code and for tests, on Linux, macOS and Windows.
 */
export class LocalProvider extends DriverProvider<LocalCapabilities> {
  constructor(options: LocalProviderOptions = {}) {
    checkKnown(options, ['root', 'inheritEnv', 'acceptNoIsolation'], 'LocalProvider')
    super(localDriver(options))
  }
}

/** The driver alone, for a provider that falls back to it under another name. */
export function localDriver(options: LocalProviderOptions & { name?: string } = {}): LocalDriver {
  const home = process.env.SANDKASTEN_HOME ?? path.join(homedir(), '.sandkasten')
  const { root = path.join(home, 'local'), inheritEnv = [], name = 'local' } = options
  if (typeof root !== 'string' || root === '')
    throw new SandboxError('invalid_argument', '`root` must be the path of a folder.')
  if (!options.acceptNoIsolation) warnOnce()
  return new LocalDriver({ name, root: path.resolve(root), inheritEnv, capabilities: localCapabilities() })
}

let warned = false

function warnOnce(): void {
  if (warned) return
  warned = true
  process.emitWarning(
    'Local sandboxes are not isolated: commands in them can do whatever this account can.',
    {
      type: 'SandkastenWarning',
      code: 'SANDKASTEN_NO_ISOLATION',
      detail:
        'Run only trusted code. Pass { acceptNoIsolation: true } to LocalProvider to hide this warning.',
    },
  )
}
