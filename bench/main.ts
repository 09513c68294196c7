/**
 * `npm run bench -- <suite>`: measures, prints, cleans up. A missed target is a result (exit 0); a failed measurement
 * is an error (exit 1).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Cleanup } from './cleanup.ts'
import { cliSuite } from './cli/index.ts'
import { daemonSuite } from './daemon/index.ts'
import { discordSuite } from './discord/index.ts'
import { engineSuite } from './engine/index.ts'
import { machineFacts } from './machine.ts'
import { networkSuite } from './network/index.ts'
import { opencodeSuite } from './opencode/index.ts'
import { Report } from './report.ts'
import { stopOnSignals } from './stop.ts'
import { matches, type Suite, type SuiteOptions } from './suite.ts'

const SUITES: readonly Suite[] = [
  engineSuite,
  daemonSuite,
  cliSuite,
  networkSuite,
  opencodeSuite,
  discordSuite,
]

const USAGE = `usage: npm run bench -- ${SUITES.map(({ name }) => name).join('|')} [--quick] [--json] [--only id,id]

${SUITES.map(({ name, about }) => `  ${name.padEnd(8)} ${about}`).join('\n')}
  --quick  under a minute, to check that it works. Numbers for documents come from a full run
  --json   one object per line; text goes to stderr
  --only   these measurements: an id of the table, or a prefix, such as docker, engine.idle or engine.command@`

const STOP_MS = 10_000

const options = read(process.argv.slice(2))
const say = options.json ? console.error : console.log
for (const fact of machineFacts()) say(fact)
const startedAt = performance.now()
const report = new Report(options)
const cleanup = new Cleanup()
const { stopped, exitCode } = stopOnSignals()
const { suite } = options
const measured = suite.run(report, cleanup, options).catch((error: unknown) => {
  if (exitCode() === undefined) report.fail(suite.name, error)
})
// After a signal the measurement stops by itself; a hang does not prevent the cleanup.
await Promise.race([measured, stopped.then(() => Promise.race([measured, sleep(STOP_MS)]))])
const problems = await cleanup.run()
if (exitCode() !== undefined) process.exit(exitCode())
const rssMib = Math.round(process.memoryUsage.rss() / 1024 ** 2)
say(
  `\ntook ${Math.round((performance.now() - startedAt) / 1000)} s; this process had ${rssMib} MiB at the end`,
)
report.close()
// Kept connections would delay the exit by seconds.
process.exit(report.failures.length > 0 || problems.length > 0 ? 1 : 0)

function read(argv: string[]): SuiteOptions & { suite: Suite; json: boolean } {
  try {
    const { values, positionals } = parseArgs({
      args: argv,
      allowPositionals: true,
      options: {
        quick: { type: 'boolean' },
        json: { type: 'boolean' },
        only: { type: 'string' },
        help: { type: 'boolean' },
      },
    })
    if (values.help) {
      console.log(USAGE)
      process.exit(0)
    }
    const [name, ...more] = positionals
    const suite = SUITES.find((one) => one.name === name)
    if (!suite || more.length > 0)
      throw new Error(name ? `no such suite: ${positionals.join(' ')}` : 'which suite?')
    const { quick = false, json = false } = values
    const only = values.only?.split(',').map((id) => id.trim()) ?? []
    const known = suite.ids(quick)
    const wrong = only.filter((chosen) => !known.some((id) => matches(id, chosen)))
    if (wrong.length > 0)
      throw new Error(`unknown measurement ${wrong.join(', ')}; known: ${known.join(' ')}`)
    return { suite, quick, json, only }
  } catch (error) {
    console.error(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exit(2)
  }
}
