import { parseSize } from '../../options.ts'
import { type Registering, reaching } from './registration.ts'

export function addVolumeCommands({ program, act }: Registering): void {
  const volumes = program
    .command('volumes')
    .description('Manage volumes: folders that outlive sessions. Mount one with sessions create --volume.')
  reaching(volumes.command('create').argument('<name>').description('Create a volume and print its name.'))
    .option('--size <size>', 'the most that it can hold, such as 500m or 10g', parseSize)
    .action(act(async (name, options) => (await import('../manage/volumes.ts')).createVolume(name, options)))
  reaching(volumes.command('list').alias('ls').description('List volumes of the project.')).action(
    act(async (options) => (await import('../manage/volumes.ts')).listVolumes(options)),
  )
  reaching(
    volumes.command('get').alias('show').argument('<name>').description('One volume, with its size.'),
  ).action(act(async (name, options) => (await import('../manage/volumes.ts')).getVolume(name, options)))
  reaching(
    volumes
      .command('delete')
      .alias('rm')
      .argument('<name...>')
      .description('Delete volumes and their content.'),
  ).action(
    act(async (names, options) => (await import('../manage/volumes.ts')).deleteVolumes(names, options)),
  )
}
