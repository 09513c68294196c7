import type { Command } from 'commander'
import { withPlaceOptions } from './options.ts'

/** `sandkasten image …`. The engine is loaded when one of them runs. */
export function addImageCommands(program: Command): void {
  const image = program
    .command('image')
    .description('Images that sandboxes are made of: build, pull, import, list, remove, prune.')
  withPlaceOptions(image.command('build'))
    .description('Build an image from a recipe: base, node, python, or a folder with a recipe.json.')
    .argument('<recipe>')
    .option('--name <name>', 'what to call it; the recipe’s name unless said')
    .action(async (recipe, options) => (await import('./image.ts')).build(recipe, options))
  withPlaceOptions(image.command('pull'))
    .description('Get an image from a registry, with skopeo.')
    .argument('<image>', 'such as python:3.12, registry.example/tool, name@sha256:…')
    .option('--authfile <file>', 'credentials, as `skopeo login --authfile` writes them')
    .action(async (name, options) => (await import('./image.ts')).pull(name, options))
  withPlaceOptions(image.command('import'))
    .description(
      'Take an image from this disk: an OCI layout (a folder or a tar archive), or what docker save wrote.',
    )
    .argument('<path>', 'such as oci:/path, docker-archive:/path, ./archive.tar')
    .option('--name <name>', 'what to call it; what it calls itself unless said')
    .action(async (path, options) => (await import('./image.ts')).importImage(path, options))
  withPlaceOptions(image.command('list'))
    .alias('ls')
    .description('What is here.')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(async (options) => (await import('./image.ts')).list(options))
  withPlaceOptions(image.command('remove'))
    .alias('rm')
    .description('Forget images. Sandboxes and snapshots that stand on them keep what they need.')
    .argument('<image...>')
    .action(async (names, options) => (await import('./image.ts')).remove(names, options))
  withPlaceOptions(image.command('prune'))
    .description('Remove layers that no image, sandbox or snapshot needs.')
    .option('--all', 'and images that no sandbox and no snapshot stands on')
    .action(async (options) => (await import('./image.ts')).prune(options))
}
