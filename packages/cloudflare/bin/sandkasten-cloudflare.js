#!/usr/bin/env node
// In a checkout the TypeScript source runs as it is; in the published package only dist/ exists.
import { existsSync } from 'node:fs'

const source = new URL('../src/cli.ts', import.meta.url)
const { run } = await import(
  existsSync(source) ? source.href : new URL('../dist/cli.js', import.meta.url).href
)

process.exitCode = await run(process.argv.slice(2), {
  cwd: process.cwd(),
  stdout: (text) => process.stdout.write(text),
  stderr: (text) => process.stderr.write(text),
})
