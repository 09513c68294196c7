import { SandboxError, type SandboxHandle, type SandboxProvider } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { E2BProvider } from '@sandkasten/sdk/e2b'
import { VercelProvider } from '@sandkasten/sdk/vercel'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { startTestDaemon, type TestDaemon } from '../../packages/daemon/src/testing/daemon.ts'
import { isolationMissing } from '../../packages/daemon/src/testing/isolator.ts'
import { type Fault, FaultProxy } from './fault-proxy.ts'

const missing = await isolationMissing()

/** Every kind of fault, for every provider and everything that is done with it. Each happens once. */
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
  /** The request that does it. */
  readonly requests: Record<Operation, RegExp>
  /** What the user sees: `ok`, or a code of the table. */
  readonly seen: Record<Operation, Record<Kind, string>>
}

const all = (text: string) => Object.fromEntries(kinds.map((kind) => [kind, text])) as Record<Kind, string>
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
    seen: { create: all('?'), command: all('?'), stream: all('?'), upload: all('?'), download: all('?') },
  },
  {
    front: 'daytona',
    provider: (at, apiKey, requestTimeoutMs) =>
      new DaytonaProvider({ apiKey, apiUrl: `${at}/api`, target: 'local', requestTimeoutMs, startTimeoutMs: requestTimeoutMs }) as never,
    requests: {
      create: /^POST \/api\/sandbox$/,
      command: /^POST .*\/process\/execute$/,
      stream: /^POST .*\/process\/execute$/,
      upload: /^POST .*\/files\/bulk-upload$/,
      download: /^POST .*\/files\/bulk-download$/,
    },
    seen: { create: all('?'), command: all('?'), stream: all('?'), upload: all('?'), download: all('?') },
  },
  {
    front: 'vercel',
    provider: (at, token, requestTimeoutMs) =>
      new VercelProvider({ token, teamId: 'team', projectId: 'project', baseUrl: at, requestTimeoutMs }) as never,
    requests: {
      create: /^POST \/v3\/sandboxes/,
      command: /^POST .*\/cmd$/,
      stream: /^GET .*\/logs$/,
      upload: /^POST .*\/fs\/write$/,
      download: /^POST .*\/fs\/read$/,
    },
    seen: { create: all('?'), command: all('?'), stream: all('?'), upload: all('?'), download: all('?') },
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
      daemon = await startTestDaemon({ isolator: 'oci', fronts: { [vendor.front]: { listen: '127.0.0.1:0' } } })
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
    /** `ok`, or the code of the error; anything else is none of ours. */
    const outcome = (work: Promise<unknown>) =>
      work.then(
        () => 'ok',
        (error: unknown) => {
          if (!SandboxError.is(error)) throw error
          expect(error.provider).toBe(vendor.front)
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
        expect(await sessions()).toBe(before + (seen === 'ok' ? 1 : 0))
        await made?.destroy()
        return seen
      },
      async command(own) {
        const args = ['-c', 'echo ran >> ran; echo out; exit 3']
        const seen = await outcome(
          own.runCommand({ cmd: 'sh', args }).then(({ exitCode, stdout }) =>
            expect([exitCode, stdout]).toEqual([3, 'out\n']),
          ),
        )
        proxy.rules()
        const ran = (await sandbox.files.exists('ran')) ? await sandbox.files.readFile('ran', 'utf8') : ''
        expect(seen === 'ok' ? ['ran\n'] : ['', 'ran\n']).toContain(ran)
        await sandbox.files.rm('ran', { force: true })
        return seen
      },
      async stream(own) {
        const process = await own.spawn({ cmd: 'sh', args: ['-c', print], detached: true })
        let text = ''
        const read = async () => {
          for await (const event of process.output()) if (event.type === 'stdout') text += String(Buffer.from(event.data))
        }
        const seen = await outcome(read())
        // Nothing is missed, changed or told twice, however it ends.
        expect(seen === 'ok' ? text === lines : lines.startsWith(text), text.slice(-100)).toBe(true)
        return seen
      },
      async upload(own) {
        await sandbox.files.writeFile('up', 'old')
        proxy.rules(rule)
        const seen = await outcome(own.files.writeFile('up', large))
        proxy.rules()
        const now = await sandbox.files.readFile('up')
        expect(seen === 'ok' ? large.equals(now) : large.equals(now) || String(now) === 'old').toBe(true)
        expect((await sandbox.files.readdir('.')).filter((name) => name !== 'up' && name !== 'down')).toEqual([])
        return seen
      },
      async download(own) {
        await sandbox.files.writeFile('down', large)
        proxy.rules(rule)
        let got: Buffer | undefined
        const seen = await outcome(
          own.files.readFile('down').then((read) => {
            got = Buffer.from(read as Uint8Array)
          }),
        )
        return seen === 'ok' && !large.equals(got!) ? 'other bytes' : seen
      },
    }
    let rule: { on: RegExp; fault: Fault; after?: number }

    it.each(operations.flatMap((operation) => kinds.map((kind) => [operation, kind] as const)))(
      '%s: %s',
      async (operation, kind) => {
        const patient = kind === 'silence' ? 2_500 : 30_000
        const own = operation === 'create' ? sandbox : await provider(patient).get(sandbox.sandboxId)
        rule = { on: vendor.requests[operation], fault: faults[kind], after: vendor.front === 'daytona' && operation === 'stream' ? 1 : 0 }
        if (operation === 'create' || operation === 'command' || operation === 'stream') proxy.rules(rule)
        const seen = await done[operation](own as SandboxHandle, patient)
        console.log('SEEN', vendor.front, operation, kind, seen)
        void vendor.seen
      },
    )
  },
)
