import { SandboxError, type SandboxHandle, type SandboxProvider } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type Fault, FaultProxy } from './fault-proxy.ts'

const missing = await isolationMissing()

/** Every kind of fault for every provider and operation. Each happens once. */
const faults = {
  delay: { kind: 'delay', ms: 300 },
  cut: { kind: 'cut-at', bytes: 20 },
  duplicate: { kind: 'duplicate' },
  corrupt: { kind: 'corrupt' },
  html: { kind: 'answer', status: 200, body: '<html><h1>Sign in</h1></html>' },
  '5xx': { kind: 'answer', status: 503, body: '<html>Later</html>' },
  silence: { kind: 'silence' },
} satisfies Record<string, Fault>
type Kind = keyof typeof faults
const kinds = Object.keys(faults) as Kind[]

const operations = ['create', 'command', 'stream', 'upload', 'download'] as const
type Operation = (typeof operations)[number]

interface Vendor {
  readonly front: 'e2b' | 'daytona' | 'vercel'
  provider(at: string, key: string, requestTimeoutMs: number): SandboxProvider
  readonly requests: Record<Operation, RegExp>
  /** The outcome for the user: `ok`, or a code of the table, and remarks. */
  readonly seen: Record<Operation, Record<Kind, string>>
}

/** In the order of the kinds; `a|b` if it depends on timing. */
const row = (...seen: string[]) =>
  Object.fromEntries(kinds.map((kind, at) => [kind, seen[at]])) as Record<Kind, string>
const garbled = 'provider_error'
const vendors: Vendor[] = [
  {
    front: 'e2b',
    provider: (at, apiKey, requestTimeoutMs) =>
      new E2BProvider({ apiKey, apiUrl: at, sandboxUrl: at, requestTimeoutMs }) as never,
    requests: {
      create: /^POST \/v2\/sandboxes$/,
      command: /^POST \/process\.Process\/Start$/,
      stream: /^POST \/process\.Process\/(Start|Connect)$/,
      upload: /^POST \/files$/,
      download: /^GET \/files$/,
    },
    // This vendor's protocol cannot distinguish a repeat from a second request, or detect changed bytes of a file.
    seen: {
      create: row('ok', 'connection_lost', 'ok, 2 of them', garbled, garbled, 'unavailable', 'timeout'),
      command: row('ok', 'connection_lost', 'ok', garbled, garbled, 'unavailable', 'timeout'),
      stream: row('ok', 'connection_lost', 'ok', garbled, garbled, 'unavailable', 'timeout'),
      upload: row('ok', 'connection_lost', 'ok', garbled, garbled, garbled, 'timeout'),
      download: row('ok', 'connection_lost', 'ok', 'other bytes', 'other bytes', garbled, 'timeout'),
    },
  },
  {
    front: 'daytona',
    provider: (at, apiKey, requestTimeoutMs) =>
      new DaytonaProvider({
        apiKey,
        apiUrl: `${at}/api`,
        target: 'local',
        requestTimeoutMs,
        startTimeoutMs: requestTimeoutMs,
      }) as never,
    requests: {
      create: /^POST \/api\/sandbox$/,
      command: /^POST .*\/process\/execute$/,
      stream: /^POST .*\/process\/execute$/,
      upload: /^POST .*\/files\/bulk-upload$/,
      download: /^POST .*\/files\/bulk-download$/,
    },
    seen: {
      create: row('ok', 'connection_lost', 'ok, 2 of them', garbled, garbled, 'unavailable', 'timeout'),
      command: row('ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'timeout'),
      stream: row('ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'timeout'),
      // The provider checks what has arrived, whatever the response.
      upload: row('ok', 'connection_lost', 'ok', 'ok', 'connection_lost', 'unavailable', 'timeout'),
      download: row('ok', garbled, 'ok', garbled, garbled, 'unavailable', 'timeout'),
    },
  },
  {
    front: 'vercel',
    provider: (at, token, requestTimeoutMs) =>
      new VercelProvider({
        token,
        teamId: 'team',
        projectId: 'project',
        baseUrl: at,
        requestTimeoutMs,
      }) as never,
    requests: {
      create: /^POST \/v3\/sandboxes/,
      command: /^POST .*\/cmd$/,
      stream: /^GET .*\/logs$/,
      upload: /^POST .*\/fs\/write$/,
      download: /^POST .*\/fs\/read$/,
    },
    seen: {
      create: row('ok', 'unavailable', 'conflict', garbled, garbled, 'unavailable', 'timeout'),
      command: row('ok', 'unavailable', 'ok|connection_lost', garbled, garbled, 'unavailable', 'timeout'),
      stream: row('ok', 'ok', 'ok', 'ok', 'ok', 'ok', 'ok'),
      upload: row('ok', 'ok', 'ok', garbled, garbled, 'unavailable', 'timeout'),
      download: row('ok', 'connection_lost', 'ok', 'other bytes', garbled, 'unavailable', 'timeout'),
    },
  },
]

const lines = Array.from({ length: 300 }, (_, line) => `line ${line}\n`).join('')
const large = Buffer.from(Array.from({ length: 200_000 }, (_, at) => `${at}`).join(' '))
const print = 'i=0; while [ $i -lt 300 ]; do echo "line $i"; i=$((i+1)); done'

describe.skipIf(missing !== undefined).each(vendors)(
  `faults under $front${missing ? ` (${missing})` : ''}`,
  (vendor) => {
    let daemon: TestDaemon
    let proxy: FaultProxy
    let sandbox: SandboxHandle
    beforeAll(async () => {
      daemon = await startTestDaemon({
        isolator: 'oci',
        fronts: { [vendor.front]: { listen: '127.0.0.1:0' } },
      })
      proxy = await FaultProxy.start()
      proxy.target = daemon.daemon.fronts[vendor.front]!
      sandbox = await provider(30_000).create({})
    })
    afterEach(() => proxy?.rules())
    afterAll(async () => {
      await proxy?.stop()
      await daemon?.stop()
    })
    const provider = (requestTimeoutMs: number) => vendor.provider(proxy.url, daemon.key, requestTimeoutMs)
    const sessions = async () =>
      (await daemon.call('GET', '/v1/sessions?status=creating,running,paused,stopped')).body.sessions.length
    /** `ok`, or the code of the error; other errors are rethrown. */
    const outcome = (work: Promise<unknown>) =>
      work.then(
        () => 'ok',
        (error: unknown) => {
          if (!SandboxError.is(error)) throw error
          if (error.code !== 'aborted') expect(error.provider).toBe(vendor.front)
          expect(JSON.stringify(error) + error.message).not.toContain(daemon.key)
          return error.code as string
        },
      )

    const done: Record<Operation, (own: SandboxHandle, patient: number) => Promise<string>> = {
      async create(_, patient) {
        const before = await sessions()
        let made: SandboxHandle | undefined
        const seen = await outcome(
          provider(patient)
            .create({})
            .then((created) => {
              made = created
            }),
        )
        const left = (await sessions()) - before
        await made?.destroy()
        return seen === 'ok'
          ? `ok${left === 1 ? '' : `, ${left} of them`}`
          : `${seen}${left === 0 ? '' : ', left behind'}`
      },
      async command(own) {
        const file = `/tmp/ran-${Math.random().toString(36).slice(2)}`
        const args = ['-c', `echo ran >> ${file}; echo out; exit 3`]
        proxy.rules(rule)
        const seen = await outcome(
          own
            .runCommand({ cmd: 'sh', args, signal: AbortSignal.timeout(10_000) })
            .then(({ exitCode, stdout }) => expect([exitCode, stdout]).toEqual([3, 'out\n'])),
        )
        proxy.rules()
        const ran = (await sandbox.runCommand({ cmd: 'sh', args: ['-c', `cat ${file} || true`] })).stdout
        return ran === 'ran\nran\n' ? `${seen}, twice` : seen
      },
      async stream(own) {
        const { execId } = await own.spawn({ cmd: 'sh', args: ['-c', print], detached: true })
        const process = await own.getProcess(execId)
        let text = ''
        const read = async () => {
          for await (const event of process.output({ signal: AbortSignal.timeout(10_000) }))
            if (event.type === 'stdout') text += Buffer.from(event.data).toString()
        }
        proxy.rules(rule)
        const seen = await outcome(read())
        // Nothing is missing, changed or repeated, whatever the end.
        expect(seen === 'ok' ? text === lines : lines.startsWith(text), text.slice(-100)).toBe(true)
        return seen
      },
      async upload(own) {
        await sandbox.files.writeFile('up', 'old')
        proxy.rules(rule)
        const seen = await outcome(own.files.writeFile('up', large, { signal: AbortSignal.timeout(10_000) }))
        proxy.rules()
        const now = await sandbox.files.readFile('up')
        expect(seen === 'ok' ? large.equals(now) : large.equals(now) || String(now) === 'old').toBe(true)
        expect((await sandbox.files.readdir('.')).filter((name) => name !== 'up' && name !== 'down')).toEqual(
          [],
        )
        return seen
      },
      async download(own) {
        await sandbox.files.writeFile('down', large)
        proxy.rules(rule)
        let got: Buffer | undefined
        const seen = await outcome(
          own.files.readFile('down', { signal: AbortSignal.timeout(10_000) }).then((read) => {
            got = Buffer.from(read as Uint8Array)
          }),
        )
        return seen === 'ok' && !large.equals(got!) ? 'other bytes' : seen
      },
    }
    let rule: { on: RegExp; fault: Fault }

    it.each(operations.flatMap((operation) => kinds.map((kind) => [operation, kind] as const)))(
      '%s: %s',
      async (operation, kind) => {
        const patient = kind === 'silence' ? 2_500 : 30_000
        const own = operation === 'create' ? sandbox : await provider(patient).get(sandbox.sandboxId)
        rule = { on: vendor.requests[operation], fault: faults[kind] }
        if (operation === 'create') proxy.rules(rule)
        const seen = await done[operation](own as SandboxHandle, patient)
        expect(vendor.seen[operation][kind].split('|')).toContain(seen)
      },
    )
  },
)
