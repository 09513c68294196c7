/** `npm run build [package…]`: JavaScript and declarations as they are published, in dependency order. */
import { cpSync, existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { bundleCli } from './bundle-cli.ts'
import { inOrder, packages } from './packages.ts'
import { root, run, stages } from './tools.ts'

const wanted = process.argv.slice(2)
const unknown = wanted.find((name) => !packages.some((one) => one.name === name))
if (unknown) {
  console.error(`Unknown package ${unknown}. Packages: ${packages.map(({ name }) => name).join(', ')}.`)
  process.exit(2)
}

await stages(
  inOrder(wanted)
    .filter(({ name, folder }) => name === 'cli' || existsSync(path.join(folder, 'tsconfig.build.json')))
    .map(({ name, folder }) => ({
      name: `build ${name}`,
      run: () => {
        rmSync(path.join(folder, 'dist'), { recursive: true, force: true })
        if (name === 'engine')
          cpSync(path.join(root, 'images'), path.join(folder, 'images'), { recursive: true })
        return name === 'cli' ? bundleCli() : run('tsc', ['-p', path.join(folder, 'tsconfig.build.json')])
      },
    })),
)
