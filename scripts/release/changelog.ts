import { readFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../tools.ts'
import { version } from './version.ts'

/** CHANGELOG.md has a section for this version, with at least one entry: `## [0.2.0] - 2026-11-17`. */
export function checkChangelog(): number {
  const text = readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8')
  const sections = text.split(/^## /m).slice(1)
  const section = sections.find((one) => one.replace('[', '').startsWith(version))
  const entries = section?.match(/^- /gm)?.length ?? 0
  if (entries > 0) {
    console.log(`${version}: ${entries} entries`)
    return 0
  }
  console.error(`CHANGELOG.md has no entries for ${version}. Add a section: ## [${version}] - YYYY-MM-DD`)
  return 1
}
