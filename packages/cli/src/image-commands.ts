import type { Command } from 'commander'
import { withPlaceOptions } from './options.ts'

/** `sandkasten image …`. An action imports the engine when it runs. */
export function addImageCommands(program: Command): void {
  const image = program
    .command('image')
    .description('Manage images of sandboxes: build, pull, import, list, remove, prune.')
  withPlaceOptions(image.command('build'))
    .description('Build an image from a recipe: base, node, python, or a folder with a recipe.json.')
    .argument('<recipe>')
    .option('--name <name>', 'name of the image; default: the recipe’s name')
    .action(async (recipe, options) => (await import('./image.ts')).build(recipe, options))
  withPlaceOptions(image.command('pull'))
    .description('Pull an image from a registry, with skopeo.')
    .argument('<image>', 'such as python:3.12, registry.example/tool, name@sha256:…')
    .option('--authfile <file>', 'credentials, as `skopeo login --authfile` writes them')
    .action(async (name, options) => (await import('./image.ts')).pull(name, options))
  withPlaceOptions(image.command('import'))
    .description(
      'Import an image from disk: an OCI layout (folder or tar archive), or an archive of docker save.',
    )
    .argument('<path>', 'such as oci:/path, docker-archive:/path, ./archive.tar')
    .option('--name <name>', 'name of the image; default: the name in the archive')
    .action(async (path, options) => (await import('./image.ts')).importImage(path, options))
  withPlaceOptions(image.command('list'))
    .alias('ls')
    .description('List images.')
    .option('--json', 'for programs')
    .option('--iso', 'exact times')
    .action(async (options) => (await import('./image.ts')).list(options))
  withPlaceOptions(image.command('remove'))
    .alias('rm')
    .description('Remove images. Existing sandboxes and snapshots keep the layers that they use.')
    .argument('<image...>')
    .action(async (names, options) => (await import('./image.ts')).remove(names, options))
  withPlaceOptions(image.command('prune'))
    .description('Remove layers that no image, sandbox or snapshot uses.')
    .option('--all', 'also remove images that no sandbox or snapshot uses')
    .action(async (options) => (await import('./image.ts')).prune(options))
}
