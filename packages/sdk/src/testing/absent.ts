import type { Ability, CreateOption, CreateSandboxOpts } from '../spec/index.ts'
import { equal, ok, rejects } from './assert.ts'
import type { Trial } from './trial.ts'
import type { AnyProvider, AnySandbox, Behaviour } from './types.ts'

/** The calls of every ability. If the ability is absent, each must throw `unsupported` and do nothing. */
export const abilityCalls: {
  readonly [A in Ability]: ReadonlyArray<[name: string, call: (sandbox: AnySandbox, trial: Trial) => unknown]>
} = {
  stdin: [
    [
      "spawn({ stdin: 'pipe' })",
      (sandbox, { commands }) => sandbox.spawn({ ...commands.copyInput(), stdin: 'pipe' }),
    ],
    [
      'process.writeStdin()',
      async (sandbox, trial) => (await trial.spawn(sandbox, trial.commands.wait())).writeStdin('x'),
    ],
    [
      'process.closeStdin()',
      async (sandbox, trial) => (await trial.spawn(sandbox, trial.commands.wait())).closeStdin(),
    ],
  ],
  mergedOutput: [
    [
      "runCommand({ output: 'merged' })",
      (sandbox, { commands }) => sandbox.runCommand({ ...commands.exit(0), output: 'merged' }),
    ],
    [
      "spawn({ output: 'merged' })",
      (sandbox, { commands }) => sandbox.spawn({ ...commands.exit(0), output: 'merged' }),
    ],
  ],
  // A property of the events, without calls.
  orderedOutput: [],
  reattach: [
    ['getProcess()', (sandbox) => sandbox.getProcess('any')],
    ['listProcesses()', (sandbox) => sandbox.listProcesses()],
  ],
  shell: [['openShell()', (sandbox) => sandbox.openShell()]],
  terminal: [['openTerminal()', (sandbox) => sandbox.openTerminal()]],
  ports: [
    ['getEndpoint()', (sandbox) => sandbox.getEndpoint(8080)],
    ['getUrl()', (sandbox) => sandbox.getUrl(8080)],
  ],
  watch: [['files.watch()', (sandbox) => sandbox.files.watch('.')]],
  stop: [
    ['stop()', (sandbox) => sandbox.stop()],
    ['start()', (sandbox) => sandbox.start()],
  ],
  pause: [
    ['pause()', (sandbox) => sandbox.pause()],
    ['resume()', (sandbox) => sandbox.resume()],
  ],
  snapshot: [
    ['snapshot()', (sandbox) => sandbox.snapshot()],
    ['provider.listSnapshots()', (_, { provider }) => provider.listSnapshots()],
    ['provider.deleteSnapshot()', (_, { provider }) => provider.deleteSnapshot('any')],
  ],
  fork: [['fork()', (sandbox) => sandbox.fork()]],
  lifetime: [['extendTimeout()', (sandbox) => sandbox.extendTimeout(60_000)]],
  activity: [['refreshActivity()', (sandbox) => sandbox.refreshActivity()]],
  egress: [
    ["setNetwork('none')", (sandbox) => sandbox.setNetwork('none')],
    ['setNetwork({ allow: [] })', (sandbox) => sandbox.setNetwork({ allow: [] })],
    [
      'create({ network: { allow: [] } })',
      // Without the option, `create-option-network` checks the refusal.
      (sandbox, t) =>
        t.provider.createOptions.has('network')
          ? t.create({ network: { allow: [] } })
          : sandbox.setNetwork({ allow: [] }),
    ],
  ],
}

export const sampleOptions: { readonly [O in CreateOption]: CreateSandboxOpts } = {
  name: { name: 'kit-sample' },
  label: { label: 'A sample' },
  labels: { labels: { kit: 'sample' } },
  envVars: { envVars: { KIT: 'sample' } },
  lifetimeMs: { lifetimeMs: 600_000 },
  snapshotId: { snapshotId: 'kit-no-such-snapshot' },
  image: { image: 'debian:12' },
  runtime: { runtime: 'node24' },
  ports: { ports: [8080] },
  resources: { resources: { vcpus: 1 } },
  user: { user: 'root' },
  network: { network: 'none' },
  repo: { repo: 'https://example.invalid/repo.git' },
  gitToken: { repo: 'https://example.invalid/repo.git', gitToken: 'kit-token' },
  providerOptions: { providerOptions: { kit: true } },
}

/** Replaces a behaviour whose abilities or options are absent. */
export function absentBehaviour(
  abilities: readonly Ability[],
  options: readonly CreateOption[],
): Pick<Behaviour, 'run'> {
  return {
    async run(trial) {
      for (const ability of abilities) await assertAbsent(trial, ability)
      for (const option of options) await assertRefused(trial.provider, option)
    },
  }
}

async function assertAbsent(trial: Trial, ability: Ability): Promise<void> {
  const sandbox = await trial.sandbox()
  equal(sandbox.capabilities[ability], undefined, `The sandbox’s capabilities.${ability}`)
  for (const [name, call] of abilityCalls[ability]) {
    const error = await rejects(
      () => call(sandbox, trial),
      'unsupported',
      `${name}, which the provider does not declare`,
    )
    equal(error.details.ability, ability, `details.ability of the error of ${name}`)
  }
}

export async function assertRefused(provider: AnyProvider, option: CreateOption): Promise<void> {
  ok(!provider.createOptions.has(option), `${option} is declared`)
  if (option === 'name')
    await rejects(
      provider.get({ name: 'kit-sample' }),
      'unsupported',
      'get({ name }) of a provider without names',
    )
  let made: AnySandbox | undefined
  try {
    await rejects(
      async () => {
        made = await provider.create(sampleOptions[option])
      },
      'unsupported',
      `create({ ${option} }), which the provider does not declare`,
    )
  } finally {
    if (made) await provider.destroy(made.sandboxId)
  }
}
