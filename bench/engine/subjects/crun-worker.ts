/**
 * Calls crun from a separate process, because crun does not start where control groups v1 and v2 are mounted side by
 * side. This process lives in a mount namespace without v2, so calls of crun need no wrapper.
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { timed } from '../../measure.ts'
import { serve } from '../../worker.ts'
import { crunConfig } from './crun-config.ts'
import { COMMAND, USER } from './subject.ts'

const [folder, rootfs, group] = process.argv.slice(2) as [string, string, string]
const root = join(folder, 'state')
const log = join(folder, 'log')
const streams = openSync(join(folder, 'streams'), 'w+')

// `crun exec` does not take the user or no-new-privileges from the bundle.
const user = ['--user', `${USER}:${USER}`, '--no-new-privs']

serve({
  async cold(id = '') {
    const bundle = join(folder, id)
    const config = crunConfig(rootfs, `/${group}/${id}`)
    const ms = await timed(async () => {
      mkdirSync(bundle)
      writeFileSync(join(bundle, 'config.json'), JSON.stringify(config))
      await crun(['run', '-d', '--bundle', bundle, id])
      await exec(id)
    })
    return { ms }
  },
  async command(id = '') {
    return { ms: await timed(() => exec(id)) }
  },
  async destroy(id = '') {
    const ms = await timed(async () => {
      await crun(['delete', '-f', id])
      rmSync(join(folder, id), { recursive: true, force: true })
    })
    return { ms }
  },
  async status(id = '') {
    const argv = ['--root', root, 'exec', ...user, id, 'cat', '/proc/self/status']
    return { ms: 0, text: execFileSync('crun', argv, { encoding: 'utf8' }) }
  },
})

function exec(id: string): Promise<void> {
  return crun(['exec', ...user, id, ...COMMAND])
}

/**
 * No pipes: a detached container would keep them open. No /dev/null: crun gives its standard streams to the
 * container's root, and with it the machine's own device.
 */
function crun(args: string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = spawn('crun', ['--root', root, '--log', log, ...args], {
      stdio: [streams, streams, streams],
    })
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve()
      else
        reject(
          new Error(`crun ${args[0]}: exit code ${code}; ${readFileSync(log, 'utf8').trim().slice(-400)}`),
        )
    })
  })
}
