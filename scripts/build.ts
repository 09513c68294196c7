/** `npm run build [package…]`: JavaScript and declarations of the packages, as they are published. */
import { cpSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { root, run, stages } from './tools.ts'

const wanted = process.argv.slice(2)
const packages = inOrder(
  readdirSync(path.join(root, 'packages')).filter((name) =>
    existsSync(path.join(root, 'packages', name, 'tsconfig.build.json')),
  ),
)
const unknown = wanted.find((name) => !packages.includes(name))
if (unknown) {
  console.error(`There is no package ${unknown}. There are: ${packages.join(', ')}.`)
  process.exit(2)
}

await stages(
  packages
    .filter((name) => wanted.length === 0 || wanted.includes(name))
    .map((name) => ({
      name: `build ${name}`,
      run: () => {
        rmSync(path.join(root, 'packages', name, 'dist'), { recursive: true, force: true })
        // The engine carries the recipes of images.
        if (name === 'engine') {
          cpSync(path.join(root, 'images'), path.join(root, 'packages/engine/images'), { recursive: true })
          carryRunner()
        }
        return run('tsc', ['-p', `packages/${name}/tsconfig.build.json`])
      },
    })),
)

/** The engine brings the runner of this architecture, so that its users need no Rust; where it is not built, they do. */
function carryRunner(): void {
  const built = path.join(root, 'runner/target/release/runner')
  const carried = path.join(root, `packages/engine/runner/runner-linux-${process.arch}`)
  if (existsSync(built)) cpSync(built, carried)
  else console.error('The runner is not built (npm test builds it): this package will be without it.')
}

/** Each after those of ours that it depends on, whose declarations it reads. */
function inOrder(names: readonly string[]): string[] {
  const done: string[] = []
  const visit = (name: string): void => {
    if (done.includes(name) || !names.includes(name)) return
    const { dependencies = {} } = JSON.parse(
      readFileSync(path.join(root, 'packages', name, 'package.json'), 'utf8'),
    )
    for (const dependency of Object.keys(dependencies)) visit(dependency.replace('@sandkasten/', ''))
    done.push(name)
  }
  for (const name of names) visit(name)
  return done
}
