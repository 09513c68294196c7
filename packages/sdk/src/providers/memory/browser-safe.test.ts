import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

it('imports no Node module, so that it works in a browser', () => {
  const sources = readdirSync(import.meta.dirname, { recursive: true, encoding: 'utf8' }).filter((name) =>
    /(?<!\.test)\.ts$/.test(name),
  )
  expect(sources.length).toBeGreaterThan(10)
  for (const name of sources)
    expect(readFileSync(`${import.meta.dirname}/${name}`, 'utf8'), name).not.toMatch(
      /['"]node:|\bBuffer\b|process\.(env|cwd|nextTick)/,
    )
})
