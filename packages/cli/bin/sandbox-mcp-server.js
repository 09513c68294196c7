#!/usr/bin/env node
// `sandbox-mcp-server <providerSandboxId>` is `sandkasten mcp --provider-sandbox <providerSandboxId>`.
const path = process.getBuiltinModule('node:path')
const { pathToFileURL } = process.getBuiltinModule('node:url')
const program = path.join(import.meta.dirname, 'sandkasten.js')
const [id, ...rest] = process.argv.slice(2)
if (id === undefined || id.startsWith('-')) {
  console.error('Usage: sandbox-mcp-server <providerSandboxId> [options of sandkasten mcp]')
  process.exit(125)
}
process.argv = [process.argv[0], program, 'mcp', '--provider-sandbox', id, ...rest]
await import(pathToFileURL(program).href)
