import type * as real from '@sandkasten/runner-client'
import type { RunnerClientPackage } from '../src/providers/ssh/runner/runner-client.ts'

/** The ssh provider's types of the runner's client fit the real package. */
export const runnerClient = (given: typeof real): RunnerClientPackage<real.RunnerClient, real.TaskOutput> =>
  given
