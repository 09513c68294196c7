import { SandboxError } from '../errors.ts'
import type { OpenShellOptions } from '../spec/index.ts'

/** For providers whose shells are plain: a login shell must not be promised where the profile is not read. */
export function refuseLogin({ login }: OpenShellOptions, provider: string): void {
  if (login)
    throw new SandboxError('unsupported', `A shell of the provider ${provider} does not read the profile.`, {
      provider,
      hint: 'Leave login out, and read the files that you need: . ~/.profile',
    })
}
