/**
 * One sandbox, for tests whose engine must run in its own namespaces. The arguments are options of the isolator and
 * changes to the spec. The worker reads scripts and writes results as lines of JSON.
 */
import { createInterface } from 'node:readline'
import { createBench, open } from './bench.ts'

const say = (value: unknown) => process.stdout.write(`${JSON.stringify(value)}\n`)
const bench = await createBench()
try {
  const isolator = bench.another(JSON.parse(process.argv[2]!))
  const spec = bench.spec(JSON.parse(process.argv[3]!))
  try {
    const box = await open(spec, await isolator.start(spec))
    say({ pids: box.pids, firstId: box.firstId })
    for await (const line of createInterface({ input: process.stdin })) say(await box.sh(JSON.parse(line)))
    box.client.close()
  } catch (error) {
    say({ error: String(error) })
  }
  await isolator.remove(spec)
} finally {
  await bench[Symbol.asyncDispose]()
}
