import { type DaemonConfig, engineOptions, loadConfig, startDaemon } from '@sandkasten/daemon'
import { EngineProvider, locateRunner } from '@sandkasten/engine'
import { SandboxError } from '@sandkasten/sdk'

export interface UpOptions {
  config?: string
  listen?: string
  dataDir?: string
  isolator?: string
  runtime?: string
  acceptNoIsolation?: boolean
  json?: boolean
}

/** Runs the daemon until it is told to end. */
export async function up(options: UpOptions): Promise<number> {
  const config = await usable(await loadConfig({ file: options.config, overrides: overridesOf(options) }))
  const daemon = await startDaemon({ config, ownsProcess: true })
  const ending = endOf()
  announce(options, config, daemon)
  await ending
  await daemon.close()
  // Should anything still hold this process, it is let go.
  setTimeout(() => process.exit(0), 1_000).unref()
  return 0
}

function overridesOf({
  listen,
  dataDir,
  isolator,
  runtime,
  acceptNoIsolation,
}: UpOptions): Record<string, unknown> {
  return {
    ...(listen === undefined ? {} : { listen }),
    ...(dataDir === undefined ? {} : { data_dir: dataDir }),
    ...(isolator === undefined ? {} : { isolator }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(acceptNoIsolation ? { accept_no_isolation: true } : {}),
  }
}

/** What isolates is looked for now, not when the first session is asked for: the runner may have to be built. */
async function usable(config: DaemonConfig): Promise<DaemonConfig> {
  const { decision } = new EngineProvider(engineOptions(config))
  if (decision.isolator === 'process') {
    console.error(`sandkasten: sandboxes are NOT isolated. ${decision.reason}`)
    return { ...config, isolator: 'process' }
  }
  try {
    await locateRunner({ onBuild: () => console.error('sandkasten: building the runner, this once…') })
    return config
  } catch (error) {
    if (!config.accept_no_isolation || config.isolator !== 'auto') throw error
    const why = SandboxError.is(error) ? `${error.message} ${error.hint}` : String(error)
    console.error(`sandkasten: sandboxes are NOT isolated. ${why}`)
    return { ...config, isolator: 'process' }
  }
}

function announce(
  { json }: UpOptions,
  config: DaemonConfig,
  daemon: { url: string; previewUrl?: string; firstKey?: string; isolation: string; instanceId: string },
): void {
  const { url, previewUrl, firstKey, isolation, instanceId } = daemon
  if (json) {
    const facts = {
      url,
      isolation,
      instance: instanceId,
      data_dir: config.data_dir,
      ...(previewUrl ? { preview_url: previewUrl } : {}),
      ...(firstKey ? { first_key: firstKey } : {}),
    }
    console.log(JSON.stringify(facts))
    return
  }
  const key = firstKey ?? '$SANDKASTEN_API_KEY'
  const shown = firstKey
    ? `The first key, shown only now:\n\n  ${firstKey}\n`
    : 'Keys: the ones you have; sandkasten keys create makes more.\n'
  console.log(`Sandkasten listens on ${url}
Sandboxes: ${isolation === 'none' ? 'NOT isolated' : `isolated (${isolation})`}. Data: ${config.data_dir}.${previewUrl ? `\nPreviews of ports: ${previewUrl}` : ''}

${shown}
Try it:

  curl -s ${url}/v1/sessions -H "Authorization: Bearer ${key}" -d '{}'
  curl -s ${url}/v1/sessions/ID/exec -H "Authorization: Bearer ${key}" -d '{"cmd":"echo hello"}'
`)
}

/** Resolves at the first signal that means the end; a second one ends at once. */
function endOf(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false
    const end = () => {
      if (asked) process.exit(130)
      asked = true
      resolve()
    }
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, end)
  })
}
