#!/usr/bin/env node
// This file imports nothing and uses old syntax only: an old Node must be able to run it and print the line below.
const node = process.versions.node.split('.').map(Number)
if (node[0] < 22 || (node[0] === 22 && node[1] < 18)) {
  console.error(`sandkasten needs Node ≥ 22.18, this is ${node[0]}.${node[1]}`)
  process.exit(1)
}
const fs = process.getBuiltinModule('node:fs')
const os = process.getBuiltinModule('node:os')
const path = process.getBuiltinModule('node:path')
const { createRequire, enableCompileCache, registerHooks } = process.getBuiltinModule('node:module')

if (process.argv.length === 3 && /^(--version|-V)$/.test(process.argv[2])) printVersion()
else start()

function printVersion() {
  const { version } = JSON.parse(fs.readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  process.stdout.on('error', (error) => {
    if (error.code !== 'EPIPE') console.error(`sandkasten: cannot write the output: ${error.message}`)
    process.exit(error.code === 'EPIPE' ? 141 : 125)
  })
  process.stdout.write(`${version}\n`)
}

async function start() {
  cacheCompiledCode()
  const { main, exitWhenOutputFails, showWarnings } = await load()
  exitWhenOutputFails()
  showWarnings()
  process.exitCode = await main(process.argv)
}

/** A checkout runs its TypeScript source; the published package contains only dist/. */
async function load() {
  const source = new URL('../src/main.ts', import.meta.url)
  if (!fs.existsSync(source)) return createRequire(import.meta.url)('../dist/main.cjs')
  registerHooks({
    resolve: (specifier, context, next) =>
      next(specifier, { ...context, conditions: [...context.conditions, 'sandkasten-source'] }),
  })
  return import(source.href)
}

/**
 * Loading a command takes a third of the time with Node's compile cache. Its default folder is in /tmp, where another
 * account could plant code, so it is in the cache folder of this account, unless that belongs to another account (sudo).
 */
function cacheCompiledCode() {
  if (process.env.NODE_COMPILE_CACHE) return
  try {
    const { XDG_CACHE_HOME: named = '' } = process.env
    const base = path.isAbsolute(named) ? named : path.join(os.homedir(), '.cache')
    // A home folder that does not exist is not created.
    if (!fs.existsSync(base)) fs.mkdirSync(base, { mode: 0o700 })
    if (process.getuid && fs.statSync(base).uid !== process.getuid()) return
    enableCompileCache(path.join(base, 'sandkasten/node'))
  } catch {
    // Without a cache, the command only takes longer.
  }
}
