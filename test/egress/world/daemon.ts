/** A daemon on the host, with all of its listeners on every address. Arguments: a folder, as JSON its listeners. */
import { configOf, startDaemon } from '@sandkasten/daemon'
import { say } from './records.ts'

const [folder = '', listeners = ''] = process.argv.slice(2)
const { api, previews, ...fronts } = JSON.parse(listeners)
const on = (port: number) => `[::]:${port}`

const daemon = await startDaemon({
  config: configOf({
    listen: on(api),
    preview_listen: on(previews),
    domain: 'previews.example',
    fronts: Object.fromEntries(
      Object.entries(fronts).map(([name, port]) => [name, { listen: on(port as number) }]),
    ),
    behind_tls: true,
    api_key: 'the-key-of-the-world-is-long-enough',
    isolator: 'process',
    data_dir: folder,
    log_level: 'silent',
  }),
  ownsProcess: true,
})
process.on('SIGTERM', () => void daemon.close())
say({ ready: true })
