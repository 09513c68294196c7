import { readFileSync } from 'node:fs'
import type { ProviderSettings } from '@sandkasten/sdk/auto'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { sshdProgram, startSshd } from '../../packages/sdk/src/providers/ssh/test-helper.ts'

/** A provider for the script: how its service is started here, and the settings for `sandkasten sandbox setup`. */
export interface Row {
  readonly provider: string
  /** Why it cannot run on this machine. */
  missing(): Promise<string | undefined>
  /** Undefined settings: it works without setup. `daemon`: more configuration, for those on a daemon. */
  start(daemon?: Record<string, unknown>): Promise<{ settings?: ProviderSettings; stop(): Promise<void> }>
}

const nothingToStop = async () => {}

/** One provider per row. A new one needs a row, and nothing else. */
export const rows: readonly Row[] = [
  { provider: 'engine', missing: isolationMissing, start: async () => ({ stop: nothingToStop }) },
  { provider: 'local', missing: async () => undefined, start: async () => ({ stop: nothingToStop }) },
  {
    provider: 'ssh',
    missing: async () => (sshdProgram ? undefined : 'needs sshd: apt-get install openssh-server'),
    async start() {
      const sshd = await startSshd({ ordinary: process.getuid?.() === 0 })
      const settings = {
        host: `${sshd.username}@127.0.0.1:${sshd.port}`,
        privateKey: readFileSync(sshd.keyFile, 'utf8'),
        knownHosts: sshd.knownHosts,
      }
      return { settings, stop: async () => sshd[Symbol.asyncDispose]() }
    },
  },
  ...['daemon', 'daytona', 'e2b', 'vercel'].map(onDaemon),
]

/** How clients reach a daemon, or a front of it. */
export const settingsOnDaemon: Readonly<Record<string, (daemon: TestDaemon) => Record<string, string>>> = {
  daemon: ({ daemon, key }) => ({ url: daemon.url, apiKey: key }),
  daytona: ({ daemon, key }) => ({
    apiKey: key,
    apiUrl: `${daemon.fronts.daytona}/api`,
    target: 'local',
  }),
  e2b: ({ daemon, key }) => ({ apiKey: key, apiUrl: daemon.fronts.e2b!, sandboxUrl: daemon.fronts.e2b! }),
  vercel: ({ daemon, key }) => ({
    token: key,
    teamId: 'team',
    projectId: 'project',
    baseUrl: daemon.fronts.vercel!,
  }),
}

/** A provider on a daemon of this test, or on a front of it, with the vendor's own SDK. */
function onDaemon(provider: string): Row {
  return {
    provider,
    missing: isolationMissing,
    async start(config = {}) {
      const listen = { listen: '127.0.0.1:0' }
      const daemon = await startTestDaemon({
        isolator: 'oci',
        preview_listen: '127.0.0.1:0',
        fronts: provider === 'daemon' ? {} : { [provider]: listen },
        ...config,
      })
      return { settings: settingsOnDaemon[provider]!(daemon), stop: () => daemon.stop() }
    },
  }
}
