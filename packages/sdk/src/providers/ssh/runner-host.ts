import type { Agent } from './agent.ts'
import type { SshSettings } from './options.ts'
import type { SshPool } from './pool.ts'
import type { RunnerSession } from './runner.ts'

/** Runners on the host: one for each sandbox, where there is a binary that runs there. */
export class RunnerHost {
  constructor(_settings: SshSettings, _agent: Agent, _pool: SshPool) {}
  async session(_sandboxId: string, _incarnation: string): Promise<RunnerSession | undefined> {
    return undefined
  }
  close(): void {}
}
