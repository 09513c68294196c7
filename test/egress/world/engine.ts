/** An engine on the host of a world; see `engine-worker.ts`. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { EngineProviderOptions } from '@sandkasten/engine'
import type { EngineMethods } from './engine-worker.ts'
import { remoteOf } from './remote.ts'
import type { World } from './world.ts'

export interface Engine extends EngineMethods, AsyncDisposable {
  readonly pid: number
  /** Of its control groups. */
  readonly name: string
  readonly root: string
  readonly runFolder: string
}

/** `asAccount` changes the command that starts the engine's process. */
export async function openEngine(
  world: World,
  options: EngineProviderOptions = {},
  asAccount: (command: readonly string[]) => readonly string[] = (command) => command,
): Promise<Engine> {
  const name = `skt-${randomBytes(4).toString('hex')}`
  const runFolder = options.oci?.runFolder ?? options.docker?.runFolder ?? join('/run', name)
  const root = options.root ?? join(world.folder, name)
  if (options.root === undefined) mkdirSync(root)
  const settings: EngineProviderOptions = {
    isolator: 'oci',
    root,
    ...options,
    oci: { runFolder, cgroupParent: name, imagesFolder: join(root, 'images'), ...options.oci },
    docker: { runFolder, ...options.docker },
  }
  const worker = join(import.meta.dirname, 'engine-worker.ts')
  const node = [process.execPath, '--conditions=sandkasten-source', worker, JSON.stringify(settings)]
  const child = world.start('host', asAccount(node))
  const remote = await remoteOf<EngineMethods>(child)
  const names = [
    'create',
    'run',
    'events',
    'setNetwork',
    'destroy',
    'gatewayFolder',
    'gatewayPid',
  ] satisfies Array<keyof EngineMethods>
  return {
    ...(Object.fromEntries(names.map((method) => [method, remote[method]])) as unknown as EngineMethods),
    pid: child.pid!,
    name,
    root,
    runFolder,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.stdin!.end()
      await exited
      rmSync(runFolder, { recursive: true, force: true })
      await removeGroups(name)
    },
  }
}

async function removeGroups(name: string): Promise<void> {
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  for (const line of mounts.filter((one) => / - cgroup2? /.test(one))) {
    const group = join(line.split(' ')[4]!, name)
    // The kernel keeps the group of a process a moment longer than the process.
    for (let tries = 0; existsSync(group) && tries < 100; tries += 1) {
      try {
        rmdirSync(group)
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error
        await sleep(20)
      }
    }
  }
}
