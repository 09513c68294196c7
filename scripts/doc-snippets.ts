/**
 * Keeps the TypeScript in the documents equal to the examples. A block below `<!-- examples/x.ts -->` is the whole file,
 * imports included, so it runs when pasted. `node scripts/doc-snippets.ts` rewrites the documents; test/docs compares.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')

const find = (patterns: string[]) =>
  globSync(patterns, { cwd: root, exclude: ['**/node_modules/**', '**/target/**'] }).sort()

/** Documents for users: each snippet is a whole example. Snippets in the READMEs of packages are run elsewhere. */
export const userDocuments = find(['*.md', 'docs/**/*.md', 'examples/**/*.md', '{bench,clients/*}/README.md'])

/** All documents, including the READMEs of rooms. */
export const documents = find(['*.md', '{docs,bench,examples,packages,clients,runner,images}/**/*.md'])

/** The document with each marked block replaced by its example. Throws at a block without an example. */
export function withSnippets(file: string): string {
  return read(file).replace(
    /(?:<!-- (\S+) -->\n)?```ts\n(.*?)```/gs,
    (_, source: string | undefined, code: string) => {
      if (!source) throw new Error(`${file}: put <!-- examples/….ts --> above this block:\n${code}`)
      return `<!-- ${source} -->\n\`\`\`ts\n${read(source)}\`\`\``
    },
  )
}

if (import.meta.main)
  for (const file of userDocuments) writeFileSync(path.join(root, file), withSnippets(file))
