import { readyLine, startBroker } from '@sandkasten/mcp/broker'
import { SandboxError } from '@sandkasten/sdk'
import { say } from '../errors.ts'
import { openHere } from '../sandbox/open.ts'
import { endings } from '../steer.ts'
import { brokerHere } from './place.ts'

export interface BrokerCommandOptions {
  port?: number
  idleExit?: number
}

/** Runs until a signal, or until it was idle for long enough. */
export async function broker({ port, idleExit }: BrokerCommandOptions): Promise<number> {
  await using opened = await openHere()
  const place = await brokerHere()
  try {
    const { registry } = opened
    await using started = await startBroker({
      registry,
      place,
      port,
      idleMs: idleExit === undefined ? undefined : idleExit * 1000,
      onReport: say,
    })
    console.log(readyLine)
    if (started.url !== undefined) say(`sandkasten: the broker listens on ${started.url}`)
    const left = Promise.withResolvers<void>()
    for (const ending of endings) process.once(ending, () => left.resolve())
    await Promise.race([started.ended, left.promise])
    return 0
  } catch (error) {
    if (!SandboxError.is(error, 'conflict')) throw error
    // Another process has started one in the same moment.
    say(`sandkasten: ${error.message}`)
    console.log(readyLine)
    return 0
  }
}
