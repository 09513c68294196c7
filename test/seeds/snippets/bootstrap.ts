import type { SandboxHandle } from '@sandkasten/sdk'
import { waitForHealth } from '../surroundings.ts'

const OPENCODE_PORT = 7777

type BootstrapOpts = {
  /** Env vars for the opencode process (KIMAKI_DB_URL, etc.) */
  envVars: Record<string, string>
  /** Pin opencode version, default 'latest' */
  opencodeVersion?: string
  /** Port to serve on, default 7777 */
  port?: number
  /** Working directory for opencode serve */
  cwd?: string
}

type BootstrapResult = {
  /** Public URL where the opencode API is reachable */
  url: string
  /** The port opencode is serving on */
  port: number
}

async function bootstrapOpencode(
  handle: SandboxHandle,
  opts: BootstrapOpts,
): Promise<BootstrapResult> {
  const port = opts.port || OPENCODE_PORT

  // 1. Check if opencode is already installed (snapshot resume)
  const check = await handle.runCommand({
    cmd: 'which',
    args: ['opencode'],
  })

  if (check.exitCode !== 0) {
    // 2. Install opencode
    const version = opts.opencodeVersion || 'latest'
    const install = await handle.runCommand({
      cmd: 'npm',
      args: ['install', '-g', `opencode-ai@${version}`],
    })
    if (install.exitCode !== 0) {
      throw new Error(
        `Failed to install opencode: ${install.stderr}`,
      )
    }
  }

  // 3. Write env vars to a file
  const envContent = Object.entries(opts.envVars)
    .map(([k, v]) => `${k}=${v}`)
    .join('\n')
  await handle.writeFile('/tmp/kimaki-env', envContent)

  // 4. Start opencode serve (detached)
  await handle.runCommand({
    cmd: 'sh',
    args: [
      '-c',
      [
        'set -a',
        'source /tmp/kimaki-env',
        'set +a',
        `opencode serve --port ${port} --hostname 0.0.0.0`,
      ].join(' && '),
    ],
    detached: true,
    cwd: opts.cwd,
  })

  // 5. Get public URL
  const url = await handle.getUrl(port)

  // 6. Wait for health endpoint (poll with backoff)
  await waitForHealth(`${url}/api/health`, {
    maxAttempts: 30,
    intervalMs: 1000,
  })

  return { url, port }
}

export { bootstrapOpencode }
