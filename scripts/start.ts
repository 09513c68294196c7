/**
 * `npm start`: the daemon on this machine. On Debian as root what isolates is installed if it is missing; where nothing can isolate, it runs
 * without, and says so. Arguments go to `sandkasten up`: `npm start -- --listen 127.0.0.1:9000`.
 */
import { main } from '../packages/cli/src/main.ts'
import { installMissing } from './prepare.ts'

if (process.platform === 'linux') await installMissing(['crun'])
process.exitCode = await main([
  process.execPath,
  'sandkasten',
  'up',
  '--accept-no-isolation',
  ...process.argv.slice(2),
])
