/**
 * Follows a file's default export to `Sandbox` of `@cloudflare/sandbox`, one link at a time:
 *
 *   shell.sandbox.ts           base.ts                      @cloudflare/sandbox
 *   class ShellSandbox   ──▶   class CompanySandbox   ──▶   Sandbox
 *
 * A link may pass through local names, constants, aliases, namespaces, re-exports and relative imports. A bare
 * package (other than the SDK) and a computed base such as a mixin call are rejected, because a guess could register
 * a class that is not a sandbox. Base classes are read too, because static fields are inherited.
 */
import { existsSync, statSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { Class, Expression } from 'oxc-parser'
import { unwrap } from './evaluate.ts'
import { fail, readModule, type SourceModule } from './module.ts'

export const SDK = '@cloudflare/sandbox'

export interface ClassLink {
  name: string | undefined
  node: Class
  module: SourceModule
}

export interface ClassChain {
  /** The exported class first, then its base classes. */
  links: ClassLink[]
  /** The module that imports the SDK: the SDK's version is resolved from there. */
  sdkImporter: SourceModule
}

type Found = ClassLink | { sdk: SourceModule }

export function readClassChain(module: SourceModule, root: string): ClassChain {
  const resolver = new Resolver(root)
  const links: ClassLink[] = []
  let found = resolver.defaultExport(module)
  while (!('sdk' in found)) {
    const link = found
    if (links.some(({ node }) => node === link.node)) {
      fail(link.module, link.node.start, 'cycle', 'this class extends itself through its base classes')
    }
    links.push(link)
    found = resolver.base(link)
  }
  return { links, sdkImporter: found.sdk }
}

class Resolver {
  readonly #root: string
  readonly #modules = new Map<string, SourceModule>()
  #steps = 0

  constructor(root: string) {
    this.#root = root
  }

  defaultExport(module: SourceModule): Found {
    const [first, second] = module.defaults
    if (!first) {
      const only = [...module.classes.keys()]
      const hint =
        only.length === 1 ? `export default class ${only[0]} …` : 'export default class … extends Sandbox'
      fail(module, 0, 'no-default-export', 'there is no default export', `write \`${hint}\``)
    }
    if (second)
      fail(module, second.start, 'two-defaults', 'a second default export', 'keep one class per file')
    if (first.name) {
      const { local, source, start } = first.name
      return source ? this.#imported(module, source, local, start) : this.#local(module, local, start)
    }
    const found = this.#expression(module, first.expression as Expression)
    if ('sdk' in found) {
      const fix = `write \`export default class ShellSandbox extends Sandbox<Env> {}\``
      fail(module, first.start, 'not-a-subclass', 'the default export is the SDK’s own class', fix)
    }
    return found
  }

  base({ node, module, name }: ClassLink): Found {
    if (node.superClass) return this.#expression(module, node.superClass)
    const who = name ? `class ${name}` : 'this class'
    const fix = `import { Sandbox } from '${SDK}' and write \`extends Sandbox<Env>\``
    fail(module, node.start, 'not-a-sandbox', `${who} does not extend Sandbox from ${SDK}`, fix)
  }

  #expression(module: SourceModule, wrapped: Expression | Class): Found {
    const expression = unwrap(wrapped as Expression)
    if (expression.type === 'Identifier') return this.#local(module, expression.name, expression.start)
    if (expression.type === 'ClassExpression' || (expression.type as string) === 'ClassDeclaration') {
      const node = expression as Class
      return { node, module, name: node.id?.name }
    }
    if (
      expression.type === 'MemberExpression' &&
      !expression.computed &&
      expression.object.type === 'Identifier'
    ) {
      const namespace = module.imports.get(expression.object.name)
      const member = expression.property.type === 'Identifier' ? expression.property.name : ''
      if (namespace?.imported === '*' && !namespace.typeOnly) {
        return this.#imported(module, namespace.source, member, expression.start)
      }
    }
    const fix = `extend Sandbox, or a class in a file of yours that does, by name: \`extends Sandbox<Env>\``
    fail(module, expression.start, 'computed-class', 'this class cannot be read without running it', fix)
  }

  #local(module: SourceModule, name: string, start: number): Found {
    if (this.#steps++ > 200) fail(module, start, 'cycle', `${name} leads back to itself`)
    const node = module.classes.get(name)
    if (node) return { node, module, name }
    const constant = module.constants.get(name)
    if (constant) {
      const found = this.#expression(module, constant)
      return 'sdk' in found || found.name ? found : { ...found, name }
    }
    const from = module.imports.get(name)
    if (!from) {
      fail(module, start, 'unknown-class', `${name} is not a class, constant or import of this file`)
    }
    if (from.typeOnly) {
      const fix = `write \`import { ${from.imported} } from '${from.source}'\``
      fail(module, from.start, 'type-only', `${name} is imported as a type and cannot be extended`, fix)
    }
    return this.#imported(module, from.source, from.imported, start)
  }

  #imported(module: SourceModule, source: string, name: string, start: number): Found {
    if (source === SDK) {
      if (name === 'Sandbox') return { sdk: module }
      fail(
        module,
        start,
        'not-a-sandbox',
        `${SDK} has no class to extend named ${name}`,
        'extend its `Sandbox`',
      )
    }
    const other = this.#load(module, source, start)
    const found = this.#exported(other, name)
    if (found) return found
    fail(module, start, 'unknown-class', `${other.file} does not export ${name}`)
  }

  #exported(module: SourceModule, name: string): Found | undefined {
    if (name === 'default' && module.defaults.length > 0) return this.defaultExport(module)
    const exported = module.exports.get(name)
    if (exported) {
      const { local, source, start } = exported
      return source ? this.#imported(module, source, local, start) : this.#local(module, local, start)
    }
    for (const star of module.stars) {
      if (star === SDK && name === 'Sandbox') return { sdk: module }
      if (!star.startsWith('.')) continue
      const found = this.#exported(this.#load(module, star, 0), name)
      if (found) return found
    }
    return undefined
  }

  #load(from: SourceModule, source: string, start: number): SourceModule {
    if (this.#steps++ > 200) fail(from, start, 'cycle', `${source} leads back to itself`)
    if (!source.startsWith('.')) {
      const fix = `extend Sandbox from ${SDK}, or a class imported by a relative path (./base.ts)`
      fail(
        from,
        start,
        'foreign-base',
        `the base class comes from the package “${source}”, which is not analysed`,
        fix,
      )
    }
    const path = resolveSource(resolve(dirname(from.path), source))
    if (!path) fail(from, start, 'missing-module', `there is no file for “${source}”`)
    const known = this.#modules.get(path) ?? readModule(path, this.#root)
    this.#modules.set(path, known)
    return known
  }
}

/** Resolves a relative import: as written, with an extension added, `.js` as `.ts`, or an index file. */
export function resolveSource(target: string): string | undefined {
  const typescript = target.replace(/\.([cm]?)js(x?)$/, '.$1ts$2')
  const added = ['.ts', '.tsx', '.mts', '.js', '.mjs', '/index.ts', '/index.js'].map((end) => target + end)
  return [target, typescript, ...added].find((path) => existsSync(path) && statSync(path).isFile())
}
