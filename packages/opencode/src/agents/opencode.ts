import { promptServer } from '../run/opencode.ts'
import type { Agent, AgentContext } from './agent.ts'

/** No person answers questions in a sandbox, and an open question blocks a prompt. */
const defaults = { autoupdate: false, share: 'disabled', permission: 'allow' }

export const opencode: Agent = {
  name: 'opencode',
  title: 'opencode',
  package: 'opencode-ai',
  version: '1.18.33',
  program: 'opencode',
  versionArgs: ['--version'],
  platformPackages(arch, musl, avx2) {
    const base = `opencode-linux-${arch}`
    const libc = musl ? '-musl' : ''
    const baseline = arch === 'x64' ? [`${base}-baseline${libc}`] : []
    return avx2 || arch === 'arm64' ? [`${base}${libc}`, ...baseline] : baseline
  },
  fileInPackage: 'bin/opencode',
  pathsInHome: ['.local/bin/opencode', '.opencode/bin/opencode'],
  needs: ['git'],
  authVariable: 'OPENCODE_AUTH_CONTENT',
  environment: ({ folder, model, config }) => ({
    OPENCODE_CONFIG_CONTENT: JSON.stringify({
      ...defaults,
      ...config,
      ...(model === undefined ? {} : { model }),
    }),
    OPENCODE_DISABLE_MODELS_FETCH: '1',
    OPENCODE_DISABLE_AUTOUPDATE: '1',
    OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
    // The built-in catalogue of models takes 240 MB of memory.
    ...(declaresModels(config) ? { OPENCODE_MODELS_PATH: `${folder}/models.json` } : {}),
  }),
  stateFolders: ['.local/share/opencode', '.local/state/opencode', '.config/opencode'],
  server: {
    args: (port, hostname) => ['serve', '--port', String(port), '--hostname', hostname],
    listening: /listening on http/,
    user: 'opencode',
    userVariable: 'OPENCODE_SERVER_USERNAME',
    passwordVariable: 'OPENCODE_SERVER_PASSWORD',
  },
  headless: { through: 'server', run: promptServer },
  interactiveArgs: ({ model, sessionId }) => [
    ...(model === undefined ? [] : ['--model', model]),
    ...(sessionId === undefined ? [] : ['--session', sessionId]),
  ],
}

/** Whether the configuration describes its models itself. */
function declaresModels(config: AgentContext['config']): boolean {
  const providers = Object.values((config?.provider ?? {}) as Record<string, unknown>)
  return providers.some((one) => typeof one === 'object' && one !== null && 'models' in one)
}
