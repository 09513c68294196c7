/**
 * `npm start`: runs the daemon on this machine. On Debian as root it first installs the requirements of isolated sandboxes. It
 * does not start without isolation. Arguments go to `sandkasten up`: `npm start -- --listen 127.0.0.1:9000`. `--yes` installs
 * without asking.
 */
import type { DaemonConfig } from '@sandkasten/daemon'
import { main } from '../packages/cli/src/main.ts'
import { builtRunner } from '../packages/engine/src/runner/source.ts'
import { installMissing, missingRust } from './install.ts'
import { missingPrograms } from './prepare.ts'
import { Interrupted } from './tools.ts'

endWithNpm()
process.exitCode = await main([process.execPath, 'sandkasten', 'up', ...process.argv.slice(2)], {
  command: 'npx sandkasten',
  prepare,
})

async function prepare(config: DaemonConfig, { yes }: { yes: boolean }): Promise<void> {
  if (process.platform !== 'linux' || config.isolator === 'process') return
  const programs = config.isolator === 'docker' ? [] : missingPrograms([config.runtime ?? 'crun'])
  const rust = process.env.SANDKASTEN_RUNNER || builtRunner() ? undefined : await missingRust()
  try {
    await installMissing([...programs, ...(rust ? [rust] : [])], { command: 'npm start', yes })
  } catch (error) {
    if (error instanceof Interrupted) process.exit(error.exitCode)
    throw error
  }
}

/** npm forwards SIGINT and SIGTERM to this process. If npm ends otherwise, such as by SIGHUP or SIGKILL, the daemon ends too. */
function endWithNpm(): void {
  if (process.env.npm_lifecycle_event !== 'start') return
  const npm = process.ppid
  const timer = setInterval(() => {
    if (process.ppid === npm) return
    clearInterval(timer)
    process.kill(process.pid, 'SIGTERM')
  }, 500)
  timer.unref()
}
