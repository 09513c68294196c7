import type { ConfiguredProvider, Credentials } from '@sandkasten/registry'
import type { SandboxError } from '@sandkasten/sdk'
import { type ProviderKind, requiredSets, settingsFromVariables } from '@sandkasten/sdk/auto'
import { say } from '../../errors.ts'
import { waiting } from '../../progress.ts'
import { print } from '../../table.ts'
import { canAsk } from '../ask.ts'
import { interruptible } from '../interrupt.ts'
import { kindsHere, openHere } from '../open.ts'
import { rowsOf, tableOf } from '../providers.ts'
import { invalid, kindOf, parseSetup, type SetupArguments } from './arguments.ts'
import { helpOf } from './help.ts'

/** `sandkasten sandbox setup`: stores, lists and removes settings of providers. */
export async function setup(args: readonly string[]): Promise<number> {
  const kinds = await kindsHere()
  const given = parseSetup(args, kinds)
  const { flags, provider } = given
  const json = flags.has('json')
  if (flags.has('help')) {
    console.log(helpOf(kinds, kindOf(provider, kinds)))
    return 0
  }
  await using opened = await openHere()
  const { credentials } = opened.registry
  if (flags.has('rotate-key')) {
    const rotated = await credentials.rotateKey()
    print(json, rotated, () => `A new key encrypts ${rotated.values} values.`)
    return 0
  }
  if (flags.has('list')) {
    const configured = await credentials.list()
    const rows = rowsOf(kinds, configured).filter(({ state }) => state !== 'not set up')
    print(json, rows, () => tableOf(rows))
    return 0
  }
  const kind = kindOf(provider, kinds)
  if (!kind)
    throw invalid(
      'No provider is given.',
      `Name one of ${kinds.map((one) => one.provider).join(', ')}, such as: sandkasten sandbox setup ${kinds[1]!.provider}.`,
    )
  if (flags.has('remove')) return await remove(credentials, kind, given)
  if (flags.has('default') && (await isReady(credentials, kind, given))) {
    await credentials.setDefault(kind.provider)
    print(json, { provider: kind.provider, isDefault: true }, () => `${kind.provider} is the default.`)
    return 0
  }
  const settings = await settingsFor(kind, given)
  const done = await interruptible((signal) =>
    waiting(
      `asking ${kind.title}`,
      credentials.setup(kind.provider, settings, {
        label: given.label,
        makeDefault: flags.has('default'),
        check: !flags.has('no-check'),
        signal,
      }),
    ),
  )
  print(json, done, () => `${done.provider} is set up${stateText(done, flags.has('no-check'))}.`)
  return 0
}

async function remove(
  credentials: Credentials,
  kind: ProviderKind,
  { flags }: SetupArguments,
): Promise<number> {
  const removed = await credentials.remove(kind.provider, { force: flags.has('force') })
  print(flags.has('json'), { provider: kind.provider, removed }, () =>
    removed
      ? `The settings of ${kind.provider} are removed.`
      : `No settings of ${kind.provider} were stored.`,
  )
  return 0
}

/** Whether `--default` only chooses: nothing new is given, and the provider works. */
async function isReady(
  credentials: Credentials,
  kind: ProviderKind,
  given: SetupArguments,
): Promise<boolean> {
  if (Object.keys(given.settings).length > 0 || given.flags.has('stdin') || given.label !== undefined)
    return false
  return (await credentials.list()).some(({ provider }) => provider === kind.provider)
}

/** From flags, then stdin, then variables, then questions. */
async function settingsFor(kind: ProviderKind, given: SetupArguments): Promise<Record<string, string>> {
  warnAboutSecrets(kind, given.settings)
  const typed = given.flags.has('stdin') ? await fromStdin(kind, given.settings) : given.settings
  const variables = fromVariables(kind, typed)
  const settings = { ...variables, ...typed }
  const used = kind.fields.filter(({ name }) => variables[name] !== undefined && typed[name] === undefined)
  if (used.length > 0)
    say(`sandkasten: uses ${used.map(({ variable }) => variable).join(', ')} of the environment.`)
  const asking = { yes: given.flags.has('yes'), json: given.flags.has('json') }
  const complete = requiredSets(kind).some((set) => set.every((name) => settings[name] !== undefined))
  if (complete) return settings
  if (!canAsk(asking)) throw incomplete(kind, settings)
  return (await import('./from-questions.ts')).askSettings(kind, settings)
}

async function fromStdin(
  kind: ProviderKind,
  flags: SetupArguments['settings'],
): Promise<Record<string, string>> {
  const { readStdin, settingsOfText } = await import('./from-stdin.ts')
  // Flags override, as everywhere.
  return { ...settingsOfText(kind, await readStdin(), flags), ...flags }
}

/** Variables of alternatives that contradict what is given do not count. */
function fromVariables(
  kind: ProviderKind,
  given: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const sets = requiredSets(kind)
  const begun = sets.filter((set) => set.some((name) => given[name] !== undefined))
  const alternatives = begun.length > 0 ? begun : sets
  const other = new Set(sets.flat().filter((name) => !alternatives.some((set) => set.includes(name))))
  const fields = kind.fields.filter(({ name }) => !other.has(name))
  return settingsFromVariables({ fields, alternatives }, process.env)
}

function incomplete(kind: ProviderKind, settings: Readonly<Record<string, string>>): SandboxError {
  const sets = requiredSets(kind).map((set) => kind.fields.filter(({ name }) => set.includes(name)))
  const lacks = (set: typeof kind.fields) => set.filter(({ name }) => settings[name] === undefined)
  const given = (set: typeof kind.fields) => set.length - lacks(set).length
  // The alternative that the user has begun, then the smallest one.
  const [nearest] = sets.toSorted((a, b) => given(b) - given(a) || lacks(a).length - lacks(b).length)
  const names = lacks(nearest!).map(({ flag }) => `--${flag}`)
  const all = sets.map((set) =>
    set.map(({ flag, variable }) => (variable ? `--${flag} (or ${variable})` : `--${flag}`)),
  )
  return invalid(
    `The provider ${kind.provider} needs ${names.join(', ')}.`,
    `It takes ${all.map((set) => set.join(', ')).join('; or ')}. --stdin reads them, too, and on a terminal you are asked.`,
  )
}

function warnAboutSecrets({ fields }: ProviderKind, settings: Readonly<Record<string, string>>): void {
  const shown = fields.filter(({ name, secret }) => secret && settings[name] !== undefined)
  if (shown.length === 0) return
  // Hides the arguments from `ps`; until now, other accounts could see them.
  process.title = 'sandkasten sandbox setup'
  const variable = shown[0]!.variable
  say(
    `sandkasten: ${shown.map(({ flag }) => `--${flag}`).join(' and ')} on the command line can be seen in the list of processes and in the shell’s history. Better: leave it out and type it when asked, pipe it with --stdin${variable ? `, or set ${variable}` : ''}.`,
  )
}

function stateText({ isDefault }: ConfiguredProvider, unchecked: boolean): string {
  return `${unchecked ? ', unchecked' : ''}${isDefault ? ', and is the default' : ''}`
}
