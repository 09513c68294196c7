import { equal, includes, ok, rejects } from '../../assert.ts'
import { EventReader } from '../../events.ts'
import { group } from '../../types.ts'

const unusualValues = {
  spaces: '  two  spaces ',
  newline: 'line one\nline two\n',
  quotes: `it's "quoted" \`too\``,
  expansion: `$(echo hacked) \${HOME} $PATH \`id\``,
  unicode: 'Grüße 你好 🏖️',
  backslash: 'a\\nb\\\\c',
  glob: '* ?.txt [a-z]',
  percent: '%s %d %%',
  equals: 'a=b=c',
  empty: '',
}

const unusualArgs = [
  '',
  ' ',
  'two words',
  'line\nbreak',
  `it's`,
  '"double"',
  '$(echo hacked)',
  '$HOME',
  '`id`',
  '*',
  '?',
  '-n',
  '--help',
  '--',
  'a\\b',
  'ünïcödé 🏖️',
  ';',
  '&&',
  '|',
  '>',
  '#',
  '~',
  '!',
  '%s',
  '{a,b}',
  '\ttab',
]

export const environment = group('environment, arguments and folder', [
  {
    id: 'env-added',
    name: 'env is added to the program’s environment, and PATH is kept',
    async run(t) {
      const sandbox = await t.sandbox()
      equal(
        (await t.run(sandbox, t.commands.printEnv('KIT_ADDED'), { env: { KIT_ADDED: 'here' } })).stdout,
        'here',
        'the variable',
      )
      equal(
        (await t.run(sandbox, t.commands.printEnv('KIT_ADDED'))).stdout,
        '<unset>',
        'the variable in the next command',
      )
    },
  },
  {
    id: 'env-unusual-values',
    name: 'Values with newlines, quotes, dollars and emoji arrive unchanged, and nothing in them is executed',
    async run(t) {
      const sandbox = await t.sandbox()
      for (const [kind, value] of Object.entries(unusualValues)) {
        equal(
          (await t.run(sandbox, t.commands.printEnv('KIT_VALUE'), { env: { KIT_VALUE: value } })).stdout,
          value,
          kind,
        )
      }
    },
  },
  {
    id: 'env-spawn',
    name: 'spawn passes env to the program too',
    async run(t) {
      const process = await t.spawn(await t.sandbox(), t.commands.printEnv('KIT_SPAWN'), {
        env: { KIT_SPAWN: 'yes' },
      })
      equal((await process.wait()).stdout, 'yes', 'the variable')
    },
  },
  {
    id: 'env-undefined',
    name: 'A variable that is undefined is ignored by commands, processes, shells and terminals',
    async run(t) {
      const sandbox = await t.sandbox()
      const env = { KIT_UNDEFINED: undefined, KIT_DEFINED: 'yes' }
      for (const [name, value] of [
        ['KIT_UNDEFINED', '<unset>'],
        ['KIT_DEFINED', 'yes'],
      ] as const) {
        const command = t.commands.printEnv(name)
        equal((await t.run(sandbox, command, { env })).stdout, value, `${name} of runCommand`)
        equal((await (await t.spawn(sandbox, command, { env })).wait()).stdout, value, `${name} of spawn`)
      }
      if (sandbox.capabilities.shell) {
        const shell = await sandbox.openShell({ env })
        t.later(() => shell.close())
        const { output } = await shell.exec(`echo "\${KIT_UNDEFINED-<unset>} $KIT_DEFINED"`)
        equal(output, '<unset> yes\n', 'both of a shell')
      }
      if (sandbox.capabilities.terminal) {
        const terminal = await sandbox.openTerminal({ ...t.commands.printEnv('KIT_UNDEFINED'), env })
        t.later(() => terminal.kill('SIGKILL'))
        await new EventReader(terminal).until('<unset>')
      }
    },
  },
  {
    id: 'env-create-undefined',
    name: 'A variable of create that is undefined is ignored',
    options: ['envVars'],
    async run(t) {
      const sandbox = await t.create({ envVars: { KIT_UNDEFINED: undefined, KIT_DEFINED: 'yes' } })
      equal((await t.run(sandbox, t.commands.printEnv('KIT_UNDEFINED'))).stdout, '<unset>', 'undefined')
      equal((await t.run(sandbox, t.commands.printEnv('KIT_DEFINED'))).stdout, 'yes', 'defined')
    },
  },
  {
    id: 'env-create',
    name: 'envVars of create are set for every command',
    options: ['envVars'],
    async run(t) {
      const sandbox = await t.create({ envVars: { KIT_BASE: 'base', KIT_ODD: unusualValues.newline } })
      equal((await t.run(sandbox, t.commands.printEnv('KIT_BASE'))).stdout, 'base', 'the variable')
      equal(
        (await t.run(sandbox, t.commands.printEnv('KIT_ODD'))).stdout,
        unusualValues.newline,
        'one with newlines',
      )
    },
  },
  {
    id: 'env-overrides',
    name: 'A command’s env overrides envVars of create, for that command only',
    options: ['envVars'],
    async run(t) {
      const sandbox = await t.create({ envVars: { KIT_BASE: 'base' } })
      equal(
        (await t.run(sandbox, t.commands.printEnv('KIT_BASE'), { env: { KIT_BASE: 'mine' } })).stdout,
        'mine',
        'with env',
      )
      equal((await t.run(sandbox, t.commands.printEnv('KIT_BASE'))).stdout, 'base', 'without')
    },
  },
  {
    id: 'env-no-leak-between',
    name: 'envVars of one sandbox are not visible in another',
    options: ['envVars'],
    async run(t) {
      await t.create({ envVars: { KIT_SECRET: 'of the first' } })
      const other = await t.create()
      equal(
        (await t.run(other, t.commands.printEnv('KIT_SECRET'))).stdout,
        '<unset>',
        'the variable in the other sandbox',
      )
    },
  },
  {
    id: 'env-of-this-process',
    name: 'Variables of this process do not reach the sandbox',
    async run(t) {
      const { process } = globalThis as { process?: { env: Record<string, string | undefined> } }
      const sandbox = await t.sandbox()
      if (process) process.env.KIT_HOST_SECRET = 'host'
      try {
        equal(
          (await t.run(sandbox, t.commands.printEnv('KIT_HOST_SECRET'))).stdout,
          '<unset>',
          'a variable of this process',
        )
        const fresh = await t.create()
        equal(
          (await t.run(fresh, t.commands.printEnv('KIT_HOST_SECRET'))).stdout,
          '<unset>',
          'the same in a sandbox made after it was set',
        )
      } finally {
        if (process) delete process.env.KIT_HOST_SECRET
      }
    },
  },
  {
    id: 'args-exact',
    name: 'Arguments arrive unchanged: not split, joined, expanded or executed',
    async run(t) {
      const { stdout } = await t.run(await t.sandbox(), t.commands.printArgs(unusualArgs))
      equal(stdout.split('\0').slice(0, -1), unusualArgs, 'arguments')
    },
  },
  {
    id: 'args-one-by-one',
    name: 'An empty argument, one with spaces and one that begins with a dash are each one argument',
    async run(t) {
      const sandbox = await t.sandbox()
      for (const arg of ['', 'a b  c', '-rf', '--x=y z', '\n']) {
        equal(
          (await t.run(sandbox, t.commands.printArgs([arg]))).stdout,
          `${arg}\0`,
          `argument ${JSON.stringify(arg)}`,
        )
      }
    },
  },
  {
    id: 'args-many',
    name: 'A thousand arguments all arrive, in order',
    async run(t) {
      const args = Array.from({ length: 1000 }, (_, index) => `argument ${index}`)
      const { stdout } = await t.run(await t.sandbox(), t.commands.printArgs(args))
      equal(stdout, args.map((arg) => `${arg}\0`).join(''), 'arguments')
    },
  },
  {
    id: 'args-long',
    name: 'An argument of 100 kB arrives completely',
    async run(t) {
      const arg = 'x'.repeat(100_000)
      equal((await t.run(await t.sandbox(), t.commands.printArgs([arg]))).stdout.length, 100_001, 'length')
    },
  },
  {
    id: 'cwd-default',
    name: 'Commands run in the workdir by default',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const { stdout } = await t.run(sandbox, t.commands.printDir())
      ok(stdout.startsWith('/') || /^[A-Z]:/.test(stdout), `the folder is ${stdout}`)
      const { stdout: inner } = await t.run(sandbox, t.commands.printDir(), { cwd: folder })
      equal(
        inner.replaceAll('\\', '/'),
        `${stdout.replaceAll('\\', '/')}/${folder}`,
        'the folder of a command with a relative cwd',
      )
    },
  },
  {
    id: 'cwd-absolute',
    name: 'cwd may be an absolute path below the workdir, with spaces and quotes',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = `${await t.folder(sandbox)}/it's a "folder"`
      await sandbox.files.mkdir(folder)
      const { stdout } = await t.run(sandbox, t.commands.printDir(), { cwd: `${sandbox.workdir}/${folder}` })
      ok(stdout.endsWith(`it's a "folder"`), `the folder is ${stdout}`)
    },
  },
  {
    id: 'cwd-missing',
    name: 'A missing cwd throws cwd_not_found, not command_not_found',
    async run(t) {
      const sandbox = await t.sandbox()
      const error = await rejects(
        t.run(sandbox, t.commands.exit(0), { cwd: 'no/such/folder' }),
        'cwd_not_found',
        'runCommand',
      )
      includes(error.message, 'no/such/folder', 'The message')
      await rejects(sandbox.spawn({ ...t.commands.exit(0), cwd: 'no/such/folder' }), 'cwd_not_found', 'spawn')
    },
  },
  {
    id: 'cwd-is-file',
    name: 'A cwd that is a file throws cwd_not_found',
    async run(t) {
      const sandbox = await t.sandbox()
      const file = t.unique('file')
      await sandbox.files.writeFile(file, '')
      await rejects(
        t.run(sandbox, t.commands.exit(0), { cwd: file }),
        ['cwd_not_found', 'not_a_directory'],
        'runCommand',
      )
    },
  },
  {
    id: 'program-sees-files',
    name: 'A program sees files written by the SDK, and the SDK reads files written by a program',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/go`, '')
      const { stdout } = await t.run(sandbox, t.commands.gate('go'), { cwd: folder })
      equal(stdout, 'before\nafter\n', 'stdout of a program that waits for a file')
      await t.run(sandbox, t.commands.flood(16, 'made'), { cwd: folder })
      equal(await sandbox.files.readdir(folder), ['go', 'made'], 'names in the folder')
    },
  },
])
