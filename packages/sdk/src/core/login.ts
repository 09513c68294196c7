import { SandboxError } from '../errors.ts'
import type { OpenShellOptions } from '../spec/index.ts'

/** For providers without login shells. */
export function refuseLogin({ login }: OpenShellOptions, provider: string): void {
  if (login)
    throw new SandboxError('unsupported', `Shells of the provider ${provider} do not read the profile.`, {
      provider,
      hint: 'Omit login, and source the files that you need: . ~/.profile',
    })
}
