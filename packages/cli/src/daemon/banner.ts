import { homedir } from 'node:os'
import path from 'node:path'
import type { Daemon, DaemonConfig } from '@sandkasten/daemon'

type Facts = Pick<Daemon, 'url' | 'previewUrl' | 'fronts' | 'firstKey' | 'isolation' | 'instanceId'>

export function startedAsJson(config: DaemonConfig, daemon: Facts): string {
  const { url, previewUrl, fronts, firstKey, isolation, instanceId } = daemon
  return JSON.stringify({
    url,
    isolation,
    instance: instanceId,
    data_dir: config.data_dir,
    preview_url: previewUrl,
    fronts: Object.keys(fronts).length > 0 ? fronts : undefined,
    first_key: firstKey,
  })
}

/** The start message for people. `command` is how they call the command line. */
export function banner(config: DaemonConfig, daemon: Facts, command: string): string {
  const { url, previewUrl, fronts, firstKey, isolation } = daemon
  const rows = [
    ['API', url],
    ...(previewUrl ? [['Previews', previewUrl]] : []),
    ...Object.entries(fronts).map(([name, at]) => [`${name} front`, at]),
    ['Sandboxes', isolation === 'none' ? 'NOT isolated' : `isolated (${isolation})`],
    ['Data', config.data_dir],
  ]
  const width = Math.max(...rows.map(([name]) => name!.length))
  const key = firstKey ?? '$SANDKASTEN_API_KEY'
  const keys = firstKey
    ? `Your first key, shown only once:\n\n  ${firstKey}`
    : `Use an existing key, or create one: ${command} keys create NAME`
  return `
Sandkasten listens on ${url}

${rows.map(([name, value]) => `  ${name!.padEnd(width)}  ${value}`).join('\n')}

${keys}

Try it in another terminal:

  ${reachable(config, command)} sessions create --name first
  ${reachable(config, command)} exec first -- echo hello

Or over HTTP:

  curl -s ${url}/v1/sessions -H "Authorization: Bearer ${key}" -d '{}'
  curl -s ${url}/v1/sessions/ID/exec -H "Authorization: Bearer ${key}" -d '{"cmd":"echo hello"}'
`
}

/** The command line finds the daemon by its data folder. A new terminal only knows the default folder. */
function reachable({ data_dir: folder }: DaemonConfig, command: string): string {
  const usual = process.getuid?.() === 0 ? '/var/lib/sandkasten' : path.join(homedir(), '.sandkasten')
  return folder === usual ? command : `SANDKASTEN_DATA_DIR=${quoted(folder)} ${command}`
}

function quoted(text: string): string {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`
}
