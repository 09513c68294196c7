import { join } from 'node:path'
import { type EgressCage, testEgress } from '../../testing/egress.ts'
import { hasProgram } from '../launch/find-program.ts'
import { createBench, reasonToSkip } from '../testing/bench.ts'
import { testedRuntime } from '../testing/runtimes.ts'

/** As an ordinary account, `privileges/ordinary-account.test.ts` runs this file. */
const isRoot = process.getuid?.() === 0
const tools = ['python3', 'perl'].filter((name) => !hasProgram(name))
const lacking = tools.length > 0 ? `needs ${tools.join(', ')}` : undefined
/** The gateway's user. An account cannot give the socket to another one. */
const gateway = isRoot ? 65_432 : undefined

async function open(changes: { user?: 'root' } = {}, runtime = 'crun'): Promise<EgressCage> {
  const bench = await createBench(runtime)
  return {
    folder: join(bench.options.runFolder!, 'egress'),
    async start(policy) {
      const box = await bench.start({ network: { policy }, ...changes })
      return {
        sh: box.sh,
        async end() {
          box.client.close()
          await bench.isolator.remove(box.spec)
        },
      }
    },
    close: async () => bench[Symbol.asyncDispose](),
  }
}

const reason = (await reasonToSkip('anyone')) ?? lacking
testEgress('oci', open, { reason, gateway })
if (isRoot) {
  testEgress('oci, root of the sandbox', () => open({ user: 'root' }), { reason, gateway })
  const runc = (await reasonToSkip('root', 'runc')) ?? lacking
  testEgress('oci on runc', () => open({}, 'runc'), { reason: runc, gateway })
  const runsc = testedRuntime('runsc')
  const gvisor = (await reasonToSkip('root', runsc)) ?? lacking
  testEgress('oci on runsc', () => open({}, runsc), { reason: gvisor, gateway, silent: true })
}
