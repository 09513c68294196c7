/** The engine with the isolator `docker`, on the same Docker daemon that it is compared with. */
import { join } from 'node:path'
import { EngineProvider } from '@sandkasten/engine'
import { timed } from '../../measure.ts'
import { assertGoingOn } from '../../stop.ts'
import type { Workplace } from '../workplace.ts'
import { assertHardened, type Box, COMMAND, type Subject } from './subject.ts'

export async function openOursOnDocker(place: Workplace, socketPath: string): Promise<Subject> {
  const provider = new EngineProvider({
    isolator: 'docker',
    root: join(place.folder, 'engine-docker'),
    docker: { socketPath, runFolder: join(place.folder, 'run-docker'), cgroupParent: `/${place.name}` },
  })
  place.cleanup.add('our sandboxes on Docker', async () => {
    for (const { sandboxId } of await provider.list()) await provider.destroy(sandboxId)
  })

  async function cold(): Promise<{ ms: number; box: Box }> {
    assertGoingOn()
    let sandbox: Awaited<ReturnType<typeof provider.create>> | undefined
    const [cmd, ...args] = COMMAND
    const command = async () => {
      const { exitCode, stderr } = await sandbox!.runCommand({ cmd, args })
      if (exitCode !== 0) throw new Error(`exit code ${exitCode}: ${stderr}`)
    }
    const ms = await timed(async () => {
      sandbox = await provider.create()
      await command()
    })
    return { ms, box: { command: () => timed(command), destroy: () => timed(() => sandbox!.destroy()) } }
  }

  // The first create also imports the image `host` and checks whether the daemon sees our disk.
  const first = await provider.create()
  assertHardened(
    'engine-docker',
    (await first.runCommand({ cmd: 'cat', args: ['/proc/self/status'] })).stdout,
  )
  await first.destroy()
  return { name: 'engine-docker', cold }
}
