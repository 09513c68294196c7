import type { Ability, CreateOption, SandboxProvider } from '../../spec/index.ts'
import { abilityCalls, sampleOptions } from '../absent.ts'

/**
 * A provider that does nothing: every call succeeds with an empty result. A behaviour that passes on it would pass on
 * anything.
 */
export function nothingProvider(): SandboxProvider {
  const abilities = Object.keys(abilityCalls) as Ability[]
  const capabilities = Object.fromEntries(abilities.map((ability) => [ability, 'native']))
  const result = {
    exitCode: 0,
    stdout: '',
    stderr: '',
    timedOut: false,
    truncated: false,
    durationMs: 0,
    output: '',
    cwd: '/',
    shellRestarted: false,
  }
  const info = { id: 'nothing:1', sandboxId: '1', status: 'running', labels: {} }
  const files = answering({
    exists: false,
    list: [],
    readdir: [],
    readFile: new Uint8Array(),
    readFileOrNull: new Uint8Array(),
    readLines: { lines: [], startLine: 1, cutLines: [], more: false },
    readStream: empty,
    stat: { type: 'file', size: 0 },
    lstat: { type: 'file', size: 0 },
    watch: none,
  })
  const process: object = answering({
    execId: 'p',
    output: () => none(),
    stdout: () => empty(),
    stderr: () => empty(),
    wait: result,
    kill: false,
    status: { running: false },
  })
  const shell = answering({ name: 'shell', cwd: '/', exec: result, close: false })
  const terminal = answering({
    terminalId: 't',
    output: () => none(),
    kill: false,
    status: { running: false },
  })
  const view = {
    id: 'nothing:1',
    sandboxId: '1',
    provider: 'nothing',
    workdir: '/',
    ports: [],
    capabilities,
    files,
    status: 'running',
    runCommand: result,
    spawn: process,
    readFile: new Uint8Array(),
    getProcess: process,
    listProcesses: [],
    openShell: shell,
    openTerminal: terminal,
  }
  const sandbox: object = answering({
    ...view,
    info,
    destroy: true,
    restricted: () => sandbox,
    fork: [],
    snapshot: { snapshotId: 's' },
    getEndpoint: { url: '', headers: {} },
    getUrl: '',
  })
  return answering({
    name: 'nothing',
    isolation: 'vm',
    capabilities,
    createOptions: new Set(Object.keys(sampleOptions) as CreateOption[]),
    create: sandbox,
    get: sandbox,
    getOrCreate: sandbox,
    list: [],
    listHandles: [],
    destroy: true,
    healthCheck: false,
    listSnapshots: [],
    deleteSnapshot: false,
  }) as unknown as SandboxProvider
}

const properties = new Set([
  'id',
  'sandboxId',
  'provider',
  'workdir',
  'ports',
  'capabilities',
  'files',
  'name',
  'isolation',
  'createOptions',
  'execId',
  'terminalId',
  'cwd',
])

/** An object whose methods all resolve, to the given value or to undefined. Functions are called. */
function answering(answers: Record<string, unknown>): object {
  return new Proxy(answers, {
    get(_, key) {
      if (key === 'then') return undefined
      const answer = answers[key as string]
      if (properties.has(key as string)) return answer
      if (typeof answer === 'function' && key !== 'watch' && key !== 'readStream') return answer
      return async () => (typeof answer === 'function' ? answer() : answer)
    },
  })
}

function empty(): ReadableStream<Uint8Array> {
  return new ReadableStream({ start: (controller) => controller.close() })
}

async function* none(): AsyncGenerator<never> {}
