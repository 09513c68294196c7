import { SandboxError } from '../errors.ts'
import type { OpenShellOptions } from '../spec/index.ts'

/** For providers without login shells: `login` must not be accepted where no profile is read. */
export function refuseLogin({ login }: OpenShellOptions, provider: string): void {
  if (login)
    throw new SandboxError('unsupported', `A shell of the provider ${provider} does not read the profile.`, {
      provider,
      hint: 'Leave login out, and read the files that you need: . ~/.profile',
    })
}
