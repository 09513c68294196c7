/** The image of a sandbox, in the documented order: `static image`, the sibling Dockerfile, the SDK's own image. */
import { dirname } from 'node:path'
import { SDK } from '../discover/class-chain.ts'
import type { SandboxSource } from '../discover/discover.ts'
import { dotRelative } from '../paths.ts'
import type { Problem } from '../problem.ts'

export const DEFAULT_IMAGE = 'docker.io/cloudflare/sandbox'

/** Needs `configDir`, because wrangler resolves a Dockerfile's path from the folder of its config. */
export function resolveImage(
  source: SandboxSource,
  configDir: string,
): { image?: string; problems: Problem[] } {
  const { image } = source.statics
  if (image) return resolveStatic(source, image.value, configDir)
  if (source.siblingDockerfile)
    return { image: dotRelative(configDir, source.siblingDockerfile), problems: [] }
  if (source.sdkVersion) return { image: `${DEFAULT_IMAGE}:${source.sdkVersion}`, problems: [] }
  const message = `${SDK} is not installed for this file, so the version of its image is unknown`
  const fix = `npm install ${SDK}\nor write \`static image = '…'\` in the class`
  return { problems: [{ severity: 'error', code: 'sdk-missing', message, place: source.place, fix }] }
}

function resolveStatic(source: SandboxSource, image: string, configDir: string) {
  const place = source.statics.image!.place
  const problem = (severity: 'error' | 'warning', code: string, message: string, fix: string): Problem => {
    return { severity, code, message, place, fix }
  }
  const [dockerfile, other] = source.imageFiles
  if (dockerfile && other) {
    const both = `${dotRelative(configDir, dockerfile)} and ${dotRelative(configDir, other)}`
    const fix = `write the path from this file's folder so that it means one of them, or remove the other`
    return { problems: [problem('error', 'ambiguous-dockerfile', `“${image}” is both ${both}`, fix)] }
  }
  if (dockerfile) return { image: dotRelative(configDir, dockerfile), problems: [] }
  if (looksLikePath(image)) {
    const seen = `${dotRelative(configDir, dirname(source.statics.image!.path))} and the config's folder`
    const fix = 'create it, or correct the path; it may be relative to this file or to the wrangler config'
    return { problems: [problem('error', 'no-dockerfile', `there is no “${image}” in ${seen}`, fix)] }
  }
  if (!/[:@][^/]+$/.test(image)) {
    const fix = `add a tag: '${image}:<version>'`
    return {
      problems: [problem('error', 'no-tag', `the image “${image}” has no tag, which wrangler refuses`, fix)],
    }
  }
  const problems: Problem[] = []
  if (image.endsWith(':latest')) {
    const message = 'the tag latest moves: a deploy next month runs another image with the same config'
    problems.push(
      problem(
        'warning',
        'latest',
        message,
        `name a version, as in '${DEFAULT_IMAGE}:${source.sdkVersion ?? '<version>'}'`,
      ),
    )
  }
  return { image, problems }
}

function looksLikePath(image: string): boolean {
  return /^(\.{0,2}\/|[A-Za-z]:\\)/.test(image) || /(^|[./])Dockerfile$/i.test(image)
}
