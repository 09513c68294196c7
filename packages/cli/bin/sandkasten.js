#!/usr/bin/env node
// In a checkout the TypeScript source of all our packages runs as it is; in the published package only dist/ exists.
import { existsSync } from 'node:fs'
import { registerHooks } from 'node:module'

const source = new URL('../src/main.ts', import.meta.url)
if (existsSync(source)) {
  registerHooks({
    resolve: (specifier, context, next) =>
      next(specifier, { ...context, conditions: [...context.conditions, 'sandkasten-source'] }),
  })
}
const { main, exitWhenOutputFails } = await import(
  existsSync(source) ? source.href : new URL('../dist/main.js', import.meta.url).href
)
exitWhenOutputFails()
process.exitCode = await main(process.argv)
