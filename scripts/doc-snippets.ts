/**
 * Keeps the TypeScript in the documents equal to the examples. A block below `<!-- examples/x.ts -->` is the whole file,
 * imports included, so it runs when pasted. `node scripts/doc-snippets.ts` rewrites the documents; test/docs compares.
 */
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
const read = (file: string) => readFileSync(path.join(root, file), 'utf8')

export const documents = globSync(
  ['*.md', '{docs,bench,examples,packages,clients,runner,images}/**/*.md', '.github/**/*.md'],
  { cwd: root, exclude: ['**/node_modules/**', '**/target/**'] },
).sort()

/** The document with each marked block replaced by its example. Throws at a block that names no example. */
export function withSnippets(file: string): string {
  return read(file).replace(
    /(?:<!-- (\S+) -->\n)?```ts\n(.*?)```/gs,
    (_, source: string | undefined, code: string) => {
      if (!source) throw new Error(`${file}: put <!-- examples/….ts --> above this block:\n${code}`)
      return `<!-- ${source} -->\n\`\`\`ts\n${read(source)}\`\`\``
    },
  )
}

if (import.meta.main) for (const file of documents) writeFileSync(path.join(root, file), withSnippets(file))
