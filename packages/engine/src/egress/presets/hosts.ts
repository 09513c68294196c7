import type { GatewayRule } from '../wire.ts'

/** The public host names that these vendors document for their API. `packages` is in `packages.ts`. */
export const presetHosts: Readonly<Record<'github' | 'anthropic' | 'openai', readonly GatewayRule[]>> = {
  github: [
    { host: 'github.com' },
    { host: 'api.github.com' },
    // Archives, uploads of releases, raw files and what these redirect to.
    { host: 'codeload.github.com' },
    { host: 'uploads.github.com' },
    { host: '*.githubusercontent.com' },
    // Git LFS.
    { host: 'github-cloud.s3.amazonaws.com' },
  ],
  anthropic: [{ host: 'api.anthropic.com' }],
  openai: [{ host: 'api.openai.com' }],
}
