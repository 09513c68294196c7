import { waiting } from '../progress.ts'
import { print } from '../table.ts'
import { type Asking, permitted } from './ask.ts'
import { interruptible } from './interrupt.ts'
import { openHere } from './open.ts'
import { report } from './report.ts'

export interface PruneOptions extends Asking {
  provider?: string
}

/** Makes the list and the providers agree: due work, sandboxes that are gone or that no row has, and failed rows. */
export async function prune(options: PruneOptions): Promise<number> {
  await using opened = await openHere()
  const failed = (await opened.sandboxes.list({ status: 'failed', provider: options.provider })).map(
    ({ name }) => name,
  )
  const question = `Compare with the providers, destroy sandboxes of this registry that have no name, and remove ${
    failed.length === 0 ? 'failed ones' : `failed ones (${failed.join(', ')})`
  }?`
  if (!(await permitted(question, options))) return 0
  const done: Array<{ sandbox: string; action: string }> = []
  const problems: unknown[] = []
  const unreachable: string[] = []
  await interruptible(async (signal) => {
    const work = async () => {
      const due = await opened.registry.doDueWork({ signal })
      const compared = await opened.registry.reconcile({ signal, provider: options.provider })
      done.push(...due.done, ...compared.done)
      problems.push(...[...due.failed, ...compared.failed].map(({ error }) => error))
      for (const { provider, error } of compared.unreachable) {
        unreachable.push(provider)
        problems.push(error)
      }
      for (const { name } of await opened.sandboxes.list({ status: 'failed', provider: options.provider })) {
        try {
          await opened.sandboxes.destroy(name, { signal })
          done.push({ sandbox: name, action: 'removed: it had failed' })
        } catch (error) {
          problems.push(error)
        }
      }
    }
    await waiting('comparing with the providers', work())
  })
  for (const problem of problems) report(problem)
  print(options.json, { done, unreachable, problems: problems.length }, () =>
    done.length === 0
      ? 'Nothing to do.'
      : done.map(({ sandbox, action }) => `${sandbox} ${action}`).join('\n'),
  )
  return problems.length > 0 ? 125 : 0
}
