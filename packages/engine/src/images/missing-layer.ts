import { SandboxError } from '@sandkasten/sdk'

export function missingLayer(image: { readonly name: string }, layer: string): SandboxError {
  return new SandboxError(
    'unavailable',
    `The image ${image.name} is damaged: its layer ${layer} is missing.`,
    {
      hint: `Run: sandkasten image remove ${image.name}, then pull, import or build it again.`,
      details: { layer },
    },
  )
}
