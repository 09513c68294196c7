import type { Registering } from '../../daemon/register/registration.ts'

export const nameArgument = ['<name>', 'the sandbox'] as const
export const namesArgument = ['<name...>', 'the sandboxes'] as const

/** Wraps actions, so that failures are reported in words of `sandkasten sandbox`. */
export function reporting(act: Registering['act']): Registering['act'] {
  return (run) =>
    act(async (...args) => {
      try {
        return await run(...args)
      } catch (error) {
        return (await import('../report.ts')).report(error)
      }
    })
}
