import { readFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../tools.ts'
import { version } from './version.ts'

/** CHANGELOG.md has entries for this version: `## [0.2.0] - 2026-11-17`. A dry run also accepts `## Unreleased`. */
export function checkChangelog({ isDryRun }: { isDryRun: boolean }): number {
  const text = readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8')
  const sections = text.split(/^## /m).slice(1)
  for (const title of isDryRun ? [version, 'Unreleased'] : [version]) {
    const section = sections.find((one) => one.replace('[', '').startsWith(title))
    const entries = section?.match(/^- /gm)?.length ?? 0
    if (entries === 0) continue
    console.log(`${title}: ${entries} entries`)
    return 0
  }
  console.error(`CHANGELOG.md has no entries for ${version}. Add a section: ## [${version}] - YYYY-MM-DD`)
  return 1
}
