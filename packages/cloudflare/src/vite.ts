/**
 * The Vite plugin. The first sync runs in the `config` hook, before Cloudflare's own plugin reads the wrangler
 * config; list this plugin first. A build fails on any error. The dev server does not: files are often invalid while
 * you type, so an error is logged and the config stays unchanged.
 *
 * There is no loop: writing the config may restart the dev server, whose sync then changes nothing.
 */
import { basename, resolve } from 'node:path'
import type { Plugin, ViteDevServer } from 'vite'
import { VIRTUAL_MODULE } from './entry.ts'
import type { PlannedSandbox } from './plan/plan.ts'
import type { SyncOptions, SyncResult } from './prepare.ts'
import { CloudflareSyncError, formatProblem } from './problem.ts'
import { check, sync } from './sync.ts'
import { generateTypes, TYPES_FILE } from './types.ts'

export interface SandkastenPluginOptions
  extends Omit<SyncOptions, 'deleteClasses' | 'renames' | 'callSites'> {
  /** Compare instead of write, and fail the build on a difference. For CI. */
  check?: boolean
  /** Keep a declaration of the bindings up to date: `true` for `sandbox-env.d.ts`, or a path. */
  types?: boolean | string
}

const RESOLVED = `\0${VIRTUAL_MODULE}`
// Longer than the 50 ms in which the watcher drops a second change of a file, so that a formatter on save is seen.
const DEBOUNCE_MS = 80

export function sandkastenCloudflare(options: SandkastenPluginOptions = {}): Plugin {
  let root = resolve(options.root ?? '.')
  let isBuild = false
  let isFirst = true
  let last: SyncResult | undefined
  let sandboxes: PlannedSandbox[] = []

  const run = async (): Promise<SyncResult> => {
    const result = options.check
      ? await check({ ...options, root, callSites: false })
      : await sync({ ...options, root, callSites: false })
    if (options.types) {
      const out = options.types === true ? TYPES_FILE : options.types
      await generateTypes({ ...options, root, out, dryRun: options.check === true })
    }
    if (options.check && result.changed)
      throw new Error(`the wrangler config is out of step:\n${result.diff}${result.instructions}`)
    last = result
    sandboxes = result.sandboxes
    return result
  }

  return {
    name: 'sandkasten:cloudflare',
    enforce: 'pre',
    config: {
      order: 'pre',
      async handler(userConfig, { command, isPreview }) {
        // Test runs load the same Vite config and must not rewrite the project.
        if (isPreview || process.env.VITEST) return
        isBuild = command === 'build'
        root = resolve(options.root ?? userConfig.root ?? '.')
        try {
          report(await run(), console)
        } catch (error) {
          if (isBuild || !(error instanceof Error)) throw error
          console.error(explain(error))
        }
      },
    },
    async buildStart() {
      // `config` covered the first build; `build --watch` gets here again for each change.
      if (isFirst || !isBuild || process.env.VITEST) {
        isFirst = false
        for (const file of last?.readFrom ?? []) this.addWatchFile(file)
        return
      }
      report(await run(), console)
    },
    configureServer(server) {
      if (process.env.VITEST) return
      watch(server, resolve(root, options.dir ?? 'src/server'), () => last?.readFrom ?? [], run)
    },
    resolveId(id) {
      return id === VIRTUAL_MODULE ? RESOLVED : undefined
    },
    load(id) {
      if (id !== RESOLVED) return undefined
      const lines = sandboxes.map(({ className, file }) => {
        return `export { default as ${className} } from ${JSON.stringify(resolve(root, file))}`
      })
      return [...lines, "export { ContainerProxy } from '@cloudflare/sandbox'", ''].join('\n')
    },
  }
}

export default sandkastenCloudflare

function watch(
  server: ViteDevServer,
  folder: string,
  readFrom: () => string[],
  run: () => Promise<SyncResult>,
): void {
  const { logger } = server.config
  let timer: NodeJS.Timeout | undefined
  let running = Promise.resolve()
  const again = async () => {
    try {
      const result = await run()
      report(result, { log: (text) => logger.info(text), warn: (text) => logger.warn(text) })
      const module = server.moduleGraph.getModuleById(RESOLVED)
      if (result.written && module) server.moduleGraph.invalidateModule(module)
    } catch (error) {
      logger.error(explain(error), { timestamp: true })
    }
  }
  const soon = () => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      // Serialized: one save can cause several events.
      running = running.then(again)
    }, DEBOUNCE_MS)
  }
  const onChange = (path: string) => {
    const name = basename(path)
    const inFolder =
      resolve(path).startsWith(folder) && (name.endsWith('.sandbox.ts') || name.endsWith('Dockerfile'))
    if (inFolder || readFrom().includes(resolve(path))) soon()
  }
  server.watcher.add(folder)
  for (const event of ['add', 'change', 'unlink'] as const) server.watcher.on(event, onChange)
  // Changes before the watcher was ready cause no event.
  server.watcher.once('ready', soon)
  server.httpServer?.once('close', () => clearTimeout(timer))
}

function report(result: SyncResult, out: { log(text: string): void; warn(text: string): void }): void {
  if (result.written) {
    out.log(
      `[sandkasten] wrote ${result.configFile}:\n${result.edits.map(({ why }) => `  ${why}`).join('\n')}`,
    )
    out.log('[sandkasten] run `wrangler types` to refresh Env')
  }
  for (const problem of result.problems) out.warn(`[sandkasten] ${formatProblem(problem)}`)
}

function explain(error: unknown): string {
  const text = error instanceof CloudflareSyncError ? error.message : String(error)
  return `[sandkasten] the wrangler config was not changed:\n${text}`
}
