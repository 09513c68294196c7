import { SandboxError } from '@sandkasten/sdk'
import type { Caller } from '../../keys/index.ts'
import type { FrontPlace } from '../front.ts'
import { everything } from '../shared/sessions.ts'

type Source = { image?: string } | { snapshotId: string }

/** Resolves a template: `base` is the default image, then allowed images, then snapshots by id or name. */
export async function templateOf(
  { services }: Pick<FrontPlace, 'services'>,
  caller: Caller,
  template: string,
): Promise<Source> {
  const { sessions } = services
  const { allowed_images: allowed } = await sessions.rules(caller)
  if (allowed.includes(template)) return { image: template }
  if (template === 'base') return {}
  const name = template.replace(/:default$/, '')
  const byId = await sessions.snapshots.find(caller, name)
  if (byId) return { snapshotId: byId.id }
  const all = await everything((options) => sessions.snapshots.list(caller, options))
  const found = all.find((snapshot) => snapshot.name === name)
  if (found) return { snapshotId: found.id }
  throw new SandboxError('not_found', `The template '${template}' was not found.`, {
    hint: `Use base, ${allowed.join(', ')}, or a snapshot. Names for images are given in the daemon's configuration (images, allowed_images).`,
  })
}
