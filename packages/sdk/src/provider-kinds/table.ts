import { SandboxError } from '../errors.ts'
import { DaemonProvider } from '../providers/daemon/index.ts'
import { DaytonaProvider } from '../providers/daytona/index.ts'
import { E2BProvider } from '../providers/e2b/index.ts'
import { HopxProvider } from '../providers/hopx/index.ts'
import { LocalProvider } from '../providers/local/index.ts'
import { SpritesProvider } from '../providers/sprites/index.ts'
import { SshProvider, sshTargetOf } from '../providers/ssh/index.ts'
import { VercelProvider } from '../providers/vercel/index.ts'
import type { SandboxProvider } from '../spec/index.ts'
import { defineProviderKind, type ProviderKind, type ProviderSettings } from './kind.ts'

const daytona = defineProviderKind({
  provider: 'daytona',
  title: 'Daytona',
  sdk: '@daytona/sdk@0',
  fields: {
    apiKey: {
      variable: 'DAYTONA_API_KEY',
      secret: true,
      description: 'an API key from the Daytona dashboard',
    },
    jwtToken: { secret: true, description: 'a JWT instead of a key, together with the organization' },
    organizationId: { description: 'the organization of the JWT' },
    apiUrl: {
      variable: 'DAYTONA_API_URL',
      format: 'url',
      description: 'the address of your own Daytona, with /api (default: the vendor’s cloud)',
    },
    target: { variable: 'DAYTONA_TARGET', description: 'the region (default: the organization’s)' },
  },
  alternatives: [['apiKey'], ['jwtToken', 'organizationId']],
  make: (settings) => new DaytonaProvider({ ...settings, env: {} }),
})

const e2b = defineProviderKind({
  provider: 'e2b',
  title: 'E2B',
  sdk: 'e2b@2',
  fields: {
    apiKey: { variable: 'E2B_API_KEY', secret: true, description: 'an API key from the E2B dashboard' },
    domain: { variable: 'E2B_DOMAIN', description: 'the domain of your own E2B (default: the vendor’s)' },
    apiUrl: {
      variable: 'E2B_API_URL',
      format: 'url',
      description: 'the address of the API, if it is not below the domain',
    },
    sandboxUrl: {
      variable: 'E2B_SANDBOX_URL',
      format: 'url',
      description: 'the address of the sandboxes, if one address serves all of them',
    },
    template: { description: 'the template of new sandboxes (default: base)' },
  },
  alternatives: [['apiKey']],
  make: (settings, { secrets }) => new E2BProvider({ ...settings, env: {}, secrets }),
})

const vercel = defineProviderKind({
  provider: 'vercel',
  title: 'Vercel Sandbox',
  sdk: '@vercel/sandbox@3',
  fields: {
    token: { variable: 'VERCEL_TOKEN', secret: true, description: 'an access token of your Vercel account' },
    teamId: { variable: 'VERCEL_TEAM_ID', description: 'the id of the team, from its settings' },
    projectId: { variable: 'VERCEL_PROJECT_ID', description: 'the id of the project, from its settings' },
    oidcToken: {
      variable: 'VERCEL_OIDC_TOKEN',
      secret: true,
      description: 'instead of these three: the token of `vercel env pull`, valid for twelve hours',
    },
    baseUrl: { format: 'url', description: 'the address of a compatible API (default: Vercel’s)' },
    namePrefix: { description: 'the prefix of the sandboxes’ names (default: sk-)' },
  },
  // Variables set by hand take precedence over the token that Vercel sets itself.
  alternatives: [['token', 'teamId', 'projectId'], ['oidcToken']],
  make: (settings, { secrets }) => new VercelProvider({ ...settings, secrets }),
})

const sprites = defineProviderKind({
  provider: 'sprites',
  title: 'Fly Sprites',
  sdk: '@fly/sprites@0',
  fields: {
    token: { variable: 'SPRITES_TOKEN', secret: true, description: 'a token from sprites.dev/account' },
    baseUrl: {
      variable: 'SPRITES_API_URL',
      format: 'url',
      description: 'the address of a compatible API (default: the vendor’s)',
    },
    namePrefix: { description: 'the prefix of the sandboxes’ names (default: sk-)' },
  },
  alternatives: [['token']],
  make: (settings) => new SpritesProvider({ ...settings, env: {} }),
})

const daemon = defineProviderKind({
  provider: 'daemon',
  title: 'Sandkasten daemon',
  fields: {
    url: {
      variable: 'SANDKASTEN_URL',
      format: 'url',
      description: 'the address of the daemon, such as http://127.0.0.1:8080',
    },
    apiKey: {
      variable: 'SANDKASTEN_API_KEY',
      secret: true,
      description: 'a key of the daemon, from `sandkasten keys create`',
    },
  },
  alternatives: [['url', 'apiKey']],
  make: (settings) => new DaemonProvider(settings),
})

const hopx = defineProviderKind({
  provider: 'hopx',
  title: 'Hopx',
  sdk: '@hopx-ai/sdk@0',
  fields: {
    apiKey: { variable: 'HOPX_API_KEY', secret: true, description: 'an API key from the Hopx console' },
    apiUrl: {
      variable: 'HOPX_BASE_URL',
      format: 'url',
      description: 'the address of a compatible API (default: the vendor’s cloud)',
    },
    region: { description: 'the region of new sandboxes (default: the vendor’s choice)' },
    template: { description: 'the template of new sandboxes (default: code-interpreter)' },
  },
  alternatives: [['apiKey']],
  make: (settings) => new HopxProvider({ ...settings, env: {} }),
})

const ssh = defineProviderKind({
  provider: 'ssh',
  title: 'SSH host',
  sdk: 'ssh2@1',
  fields: {
    host: { variable: 'SANDKASTEN_SSH_HOST', description: 'a host, user@host or user@host:port' },
    username: { flag: 'user', description: 'the account on the host (default: your account’s name)' },
    port: { format: 'port', description: 'the port (default: 22)' },
    privateKeyPath: { description: 'the file of a private key (default: the agent, then ~/.ssh)' },
    privateKey: {
      secret: true,
      format: 'lines',
      description: 'the text of a private key, in OpenSSH’s or PEM format',
    },
    passphrase: { secret: true, description: 'the passphrase of the private key' },
    agent: { description: 'the socket of an ssh-agent (default: SSH_AUTH_SOCK, unless a key is given)' },
    hostKey: { description: 'the host’s key or its fingerprint (SHA256:…), instead of known_hosts' },
    knownHosts: { description: 'a known_hosts file (default: yours and the machine’s)' },
    root: { description: 'the folder of sandboxes on the host (default: .sandkasten/ssh)' },
  },
  alternatives: [['host']],
  make: ({ host, username, port, ...settings }) => {
    const target = sshTargetOf(host!)
    if (!target)
      throw new SandboxError('invalid_argument', '`host` does not name a host.', {
        provider: 'ssh',
        hint: 'Use a host name, user@host or user@host:port.',
        details: { field: 'host' },
      })
    for (const [field, twice] of Object.entries({
      username: username !== undefined && target.username !== undefined,
      port: port !== undefined && target.port !== undefined,
    }))
      if (twice)
        throw new SandboxError('invalid_argument', `\`${field}\` and \`host\` both give it.`, {
          provider: 'ssh',
          hint: `Leave one of them out.`,
          details: { field },
        })
    return new SshProvider({
      ...settings,
      host: target.host,
      username: username ?? target.username,
      port: port === undefined ? target.port : Number(port),
    })
  },
})

const local = defineProviderKind({
  provider: 'local',
  title: 'this machine, without isolation',
  fields: {},
  make: () => new LocalProvider(),
})

/**
 * Every provider of the SDK that can be constructed from strings. The only list of their settings: detection, the
 * command line and stored credentials read it.
 */
export const providerKinds: readonly ProviderKind[] = [
  daytona,
  e2b,
  vercel,
  daemon,
  sprites,
  hopx,
  ssh,
  local,
]

/** Constructs a provider from settings, such as stored ones. See `ProviderKind.make`. */
export function createProvider(provider: string, settings: ProviderSettings): SandboxProvider {
  const kind = providerKinds.find((one) => one.provider === provider)
  if (kind) return kind.make(settings)
  throw new SandboxError('invalid_argument', 'There is no provider of that name.', {
    hint: `Use one of ${providerKinds.map((one) => one.provider).join(', ')}.`,
  })
}
