import {
  dockerMissing,
  startDockerd as startPrivate,
} from '../../../packages/engine/src/isolators/docker/testing/daemons.ts'
import { folderIn, type Workplace } from '../workplace.ts'
import { DockerApi } from './docker-api.ts'

export { dockerMissing }

export async function startDockerd(place: Workplace): Promise<{ api: DockerApi; socketPath: string }> {
  const daemon = await startPrivate(folderIn(place, 'docker'), { group: place.name })
  const api = new DockerApi(daemon.socketPath)
  place.cleanup.add('the private dockerd', async () => {
    api.close()
    await daemon.stop()
  })
  return { api, socketPath: daemon.socketPath }
}
