import type { CommandContext, MemoryProvider } from '../providers/memory/index.ts'
import { parseRuntime } from '../shared/runtime.ts'
import type { Network, NetworkRule } from '../spec/index.ts'
import type { CommandKit } from './command-kit.ts'
import type { EgressTargets } from './types.ts'

/** Implements the kit's programs on a memory provider. */
export function memoryCommands(provider: MemoryProvider): CommandKit {
  /** By marker: resolves when the last program of that tree has ended. */
  const trees = new Map<string, PromiseWithResolvers<void>>()
  const add = (name: string, run: Parameters<MemoryProvider['command']>[1]) =>
    void provider.command(`kit-${name}`, run)

  add('print', ({ args, stdout }) => stdout.write(args[0] ?? ''))
  add('print-error', ({ args, stderr }) => stderr.write(args[0] ?? ''))
  add('exit', ({ args }) => Number(args[0]))
  add('die', ({ args, raise }) => raise(args[0] ?? 'SIGTERM'))
  add('copy-input', async ({ stdin, stdout }) => {
    for await (const chunk of stdin) await stdout.write(chunk)
  })
  add('print-env', ({ args, env, stdout }) => stdout.write(env[args[0] ?? ''] ?? '<unset>'))
  add('print-dir', ({ cwd, stdout }) => stdout.write(cwd))
  add('print-args', ({ args, stdout }) => stdout.write(args.map((arg) => `${arg}\0`).join('')))
  add('bytes', ({ stdout }) => stdout.write(Uint8Array.from({ length: 256 }, (_, byte) => byte)))
  add('wait', async ({ stdout, signal }) => {
    await stdout.write('ready\n')
    await forever(signal)
  })
  add('wait-trapped', async ({ stdout, trap }) => {
    const term = new Promise<void>((resolve) => trap('SIGTERM', resolve))
    await stdout.write('ready\n')
    await term
    await stdout.write('term\n')
    return 7
  })
  add('relay', relay)
  add('flood', async (context) => {
    const { args, stdout, files } = context
    if (args[2]) await fileThere(context, args[2])
    const block = new TextEncoder().encode('0123456789abcde\n'.repeat(2048))
    for (let left = Number(args[0]); left > 0; left -= block.byteLength)
      await stdout.write(left < block.byteLength ? block.subarray(0, left) : block)
    if (args[1]) await files.writeFile(args[1], '')
  })
  add('flood-both', async ({ args, stdout, stderr }) => {
    for (const [stream, bytes] of [
      [stdout, args[0]],
      [stderr, args[1]],
      [stdout, args[0]],
    ] as const)
      await stream.write('0123456789abcde\n'.repeat(Number(bytes) / 16))
  })
  add('gate', async (context) => {
    await context.stdout.write('before\n')
    await fileThere(context)
    await context.stdout.write('after\n')
  })
  add('split-character', async (context) => {
    await context.stdout.write(Uint8Array.of(0x61, 0xc3))
    await fileThere(context)
    await context.stdout.write(Uint8Array.of(0xa9, 0x7a))
  })
  add('tree', async ({ args, spawnChild, signal }) => {
    const marker = args[0] ?? ''
    trees.set(marker, Promise.withResolvers())
    spawnChild('kit-tree-child', args)
    await forever(signal)
  })
  add('tree-child', async ({ args, spawnChild, signal }) => {
    spawnChild('kit-tree-grandchild', args, { session: args[2] !== 'nothing' })
    if (args[2] !== 'parent') await forever(signal)
  })
  add('tree-grandchild', async ({ args, signal, stdout, trap }) => {
    for (const ignored of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) if (args[1]) trap(ignored, () => {})
    await stdout.write('ready\n')
    await forever(signal).catch(() => trees.get(args[0] ?? '')?.resolve())
  })
  add('after-tree', async ({ args, stdout }) => {
    await stdout.write('watching\n')
    await trees.get(args[0] ?? '')?.promise
    await stdout.write('gone\n')
  })
  add('daemon', async ({ args, spawnChild, stdout }) => {
    trees.set(args[0] ?? '', Promise.withResolvers())
    spawnChild('kit-daemon-itself', args, { session: true })
    await stdout.write('started\n')
  })
  add('daemon-itself', ({ args, signal }) => forever(signal).catch(() => trees.get(args[0] ?? '')?.resolve()))
  add('leave-child', async ({ spawnChild, stdout }) => {
    spawnChild('kit-wait-silently')
    await stdout.write('started\n')
  })
  add('wait-silently', ({ signal }) => forever(signal))
  add('user-id', ({ stdout }) => stdout.write('1000'))
  add('version', async ({ args, sandboxId, stdout }) => {
    const { program, version } = parseRuntime(provider.runtimeOf(sandboxId) ?? '') ?? {}
    if (program !== args[0]) return 127
    await stdout.write(`${version}.0\n`)
    return 0
  })
  add('connect', async ({ args, sandboxId, stdout, clock }) => {
    const reaches = () => isReached(provider.networkOf(sandboxId), args[0] ?? '', Number(args[1]))
    if (!reaches()) return 1
    await stdout.write('open\n')
    while (reaches()) await clock.sleep(1)
    await stdout.write('closed\n')
    return 0
  })
  add('script', ({ stdout }) => stdout.write('from a script'))

  const kit = (name: string, ...args: string[]) => ({ cmd: `kit-${name}`, args })
  return {
    print: (text) => kit('print', text),
    printError: (text) => kit('print-error', text),
    exit: (code) => kit('exit', String(code)),
    die: (signal) => kit('die', signal),
    copyInput: () => kit('copy-input'),
    printEnv: (name) => kit('print-env', name),
    printDir: () => kit('print-dir'),
    printArgs: (args) => kit('print-args', ...args),
    bytes: () => kit('bytes'),
    wait: () => kit('wait'),
    waitTrapped: () => kit('wait-trapped'),
    relay: () => kit('relay'),
    flood: (bytes, marker, gate) => kit('flood', String(bytes), marker ?? '', gate ?? ''),
    floodBoth: (bytes, errorBytes = bytes) => kit('flood-both', String(bytes), String(errorBytes)),
    gate: (path) => kit('gate', path),
    splitCharacter: (path) => kit('split-character', path),
    tree: (marker, { leaves, heeds } = {}) =>
      kit('tree', marker, heeds ? '' : 'TERM INT HUP', leaves ?? 'nothing'),
    afterTree: (marker) => kit('after-tree', marker),
    daemon: (marker) => kit('daemon', marker),
    leaveChild: () => kit('leave-child'),
    userId: () => kit('user-id'),
    version: (program) => kit('version', program),
    connect: (host, port) => kit('connect', host, String(port)),
    script: '#!kit-script\n',
    missing: 'kit-missing',
  }
}

/** Names that only the program `connect` of these commands knows. */
export const memoryEgress: EgressTargets = {
  allowed: { host: 'allowed.test', port: 8080 },
  denied: { host: 'denied.test', port: 8081 },
}

async function relay({ stdin, stdout, stderr }: CommandContext): Promise<number> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const chunk of stdin) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      const [word = '', text = ''] = [line.slice(0, line.indexOf(' ')), line.slice(line.indexOf(' ') + 1)]
      if (word === 'out') await stdout.write(`${text}\n`)
      else if (word === 'err') await stderr.write(`${text}\n`)
      else if (word === 'exit') return Number(text)
    }
  }
  return 0
}

/** A simulated network, in which policies name hosts with ports. */
function isReached(network: Network | undefined, host: string, port: number): boolean {
  if (typeof network !== 'object') return network !== 'none'
  const names = (rule: NetworkRule) =>
    typeof rule === 'object' && 'host' in rule && rule.host === host && rule.ports?.includes(port) === true
  return network.allow.some(names) && !(network.deny ?? []).some(names)
}

async function fileThere({ args, files, clock }: CommandContext, path = args[0] ?? ''): Promise<void> {
  while (!(await files.exists(path))) await clock.sleep(1)
}

function forever(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(new Error('killed')), { once: true }),
  )
}
