import { release } from 'node:os'
import type { Reporter, TestCase, TestModule } from 'vitest/node'

type Problem = Parameters<NonNullable<Reporter['onTestRunEnd']>>[1][number]

/**
 * Reports at the end of a test run which providers, isolation and platform were covered, and which tests were skipped and
 * why. On CI a run without the required coverage fails. Failures are repeated in short as the last lines.
 */
export default class CoverageReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], unhandled: readonly Problem[]): void {
    const covered = new Set<string>()
    const skipped: string[] = []
    const shaky: string[] = []
    const failed = unhandled.map((problem) => `outside any test: ${firstLine(problem)}`)
    for (const module of modules) {
      for (const problem of module.errors()) failed.push(`${module.relativeModuleId}: ${firstLine(problem)}`)
      for (const test of module.children.allTests()) {
        const subject = /(?:^| > )conformance: (.+?)(?: > |$)/.exec(test.fullName)?.[1]
        if (subject && test.result().state === 'passed') covered.add(subject)
        const result = test.result()
        if (test.diagnostic()?.flaky) shaky.push(`${test.fullName}: ${firstLine(result.errors?.[0])}`)
        if (result.state === 'skipped') skipped.push(`${test.fullName}: ${reasonOf(test)}`)
        if (result.state === 'failed')
          failed.push(`${module.relativeModuleId} > ${test.fullName}: ${firstLine(result.errors[0])}`)
      }
    }
    console.log(
      `\nPlatform: ${process.platform} ${release()} ${process.arch}, Node ${process.version}${process.getuid?.() === 0 ? ', as root' : ''}`,
    )
    console.log(`Conformance kit passed on: ${[...covered].sort().join('; ') || 'nothing in this run'}`)
    const missing = mustCover.filter((name) => ![...covered].some((subject) => subject.startsWith(name)))
    if (missing.length > 0) console.log(`Not covered in this run: the kit on ${missing.join(', ')}.`)
    console.log(
      'Not covered by this machine: other operating systems and architectures (run npm test there).',
    )
    console.log(
      skipped.length === 0 ? 'Skipped: nothing.' : `Skipped (${skipped.length}):\n  ${skipped.join('\n  ')}`,
    )
    if (shaky.length > 0)
      console.log(`Flaky, passed only on retry (${shaky.length}):\n  ${shaky.join('\n  ')}`)
    if (process.env.CI && process.env.CI !== 'false' && missing.length > 0 && modules.length > 5) {
      console.error(`\n✗ Not covered, but must be on CI: ${missing.join(', ')}`)
      process.exitCode = 1
    }
    if (failed.length > 0) console.error(`\n✗ Failed (${failed.length}):\n  ${failed.join('\n  ')}`)
  }
}

const mustCover = [
  'local',
  'memory',
  'withRetry over memory',
  'failover to memory',
  'engine on oci',
  'engine on runsc',
  'engine without root',
  'engine on docker',
  'engine on Podman',
  'engine on process',
  'ssh (isolation: none)',
  'ssh with the runner',
  'daemon on SQLite',
  'daemon on Postgres',
  'daytona',
  'e2b',
  'vercel',
  'sprites',
  'hopx',
]

function reasonOf(test: TestCase): string {
  const result = test.result()
  return (result.state === 'skipped' && result.note) || 'no reason given'
}

function firstLine(problem: Problem | undefined): string {
  const where = problem?.stacks?.[0]
  const message = (problem?.message ?? 'no message').split('\n')[0]!.slice(0, 300)
  return where ? `${message} (${where.file.split('/').slice(-2).join('/')}:${where.line})` : message
}
