import { onAbort } from '../shared/calls/abort.ts'
import { override } from '../shared/override.ts'
import type { ProcessEvent } from '../spec/index.ts'
import type { ProcessDriver } from './driver.ts'

/**
 * Kills the process when the signal fires. The listener is removed as soon as the end of the process is known: from
 * the driver, or from any call on the returned process. A signal can outlive thousands of processes.
 */
export function endOnAbort(driver: ProcessDriver, signal: AbortSignal): ProcessDriver {
  const forget = onAbort(signal, () => {
    // There is no caller to tell. If the connection is lost, the calls on the process report it.
    driver.kill('SIGKILL', {}).catch(() => {})
  })
  driver.whenEnded?.then(forget, forget)
  const { waitForExit } = driver
  return override(driver, {
    async *events(after, readSignal) {
      for await (const event of driver.events(after, readSignal)) {
        if (event.type === 'exit') forget()
        yield event as ProcessEvent
      }
    },
    async status(call) {
      const status = await driver.status(call)
      if (!status.running) forget()
      return status
    },
    async kill(name, call) {
      const wasRunning = await driver.kill(name, call)
      if (!wasRunning) forget()
      return wasRunning
    },
    ...(waitForExit && {
      async waitForExit(call) {
        const exit = await waitForExit.call(driver, call)
        forget()
        return exit
      },
    }),
  } satisfies Partial<ProcessDriver>)
}
