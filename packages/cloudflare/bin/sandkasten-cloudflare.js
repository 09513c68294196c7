#!/usr/bin/env node
// This file imports nothing and uses old syntax only: an old Node must be able to run it and print the line below.
const node = process.versions.node.split('.').map(Number)
if (node[0] < 22 || (node[0] === 22 && node[1] < 18)) {
  console.error(`sandkasten-cloudflare needs Node ≥ 22.18, this is ${node[0]}.${node[1]}`)
  process.exit(1)
}
start()

async function start() {
  const { existsSync } = process.getBuiltinModule('node:fs')
  // A checkout runs its TypeScript source; the published package contains only dist/.
  const source = new URL('../src/cli.ts', import.meta.url)
  const { run } = await import(
    existsSync(source) ? source.href : new URL('../dist/cli.js', import.meta.url).href
  )
  process.exitCode = await run(process.argv.slice(2), {
    cwd: process.cwd(),
    stdout: (text) => process.stdout.write(text),
    stderr: (text) => process.stderr.write(text),
  })
}
