import { SandboxError } from '@sandkasten/sdk'
import type { Context } from './context.ts'
import type { CreateRequest } from './plan.ts'

/** Replaces the runtime of a request by one of the allowed images that has it. */
export async function withRuntimeImage(
  under: Pick<Context, 'config' | 'provider'>,
  { runtime, ...request }: CreateRequest,
): Promise<CreateRequest> {
  if (runtime === undefined) return request
  if (request.image !== undefined || request.snapshotId !== undefined)
    throw new SandboxError('invalid_argument', 'A runtime is given together with an image or a snapshot.', {
      hint: 'Both select the programs. Send one of them.',
    })
  return { ...request, image: await imageOfRuntime(under, runtime) }
}

/** The allowed image that has this runtime, under its name here. Throws `unsupported` with the runtimes that exist. */
export async function imageOfRuntime(
  { config, provider }: Pick<Context, 'config' | 'provider'>,
  runtime: string,
): Promise<string> {
  if (!provider.imageForRuntime)
    throw new SandboxError('unsupported', 'This daemon has no runtimes.', {
      details: { option: 'runtime', runtime, available: [] },
      hint: 'Choose an image instead.',
    })
  // The configuration may give images other names.
  const realName = (name: string) => config.images[name] ?? name
  const image = await provider.imageForRuntime(runtime, config.allowed_images.map(realName))
  return config.allowed_images.find((name) => realName(name) === image) ?? image
}
