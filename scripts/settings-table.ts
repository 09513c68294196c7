/** Prints the table of providers' settings in docs/providers.md, from the table of the SDK. */
import { providerKinds, requiredSets } from '../packages/sdk/src/provider-kinds/index.ts'

export function settingsTable(): string {
  const rows = providerKinds.flatMap((kind) =>
    kind.fields.map(({ name, flag, variable, secret, description }) => {
      const sets = requiredSets(kind)
      const needed = sets.every((set) => set.includes(name))
      const inOne = sets.length > 1 && sets.some((set) => set.includes(name))
      return [
        `\`${kind.provider}\``,
        `\`${name}\``,
        `\`--${flag}\``,
        variable === undefined ? '' : `\`${variable}\``,
        needed ? 'required' : inOne ? 'alternative' : '',
        secret ? '✓' : '',
        description,
      ]
    }),
  )
  const head = ['provider', 'setting', 'flag', 'variable', 'needed', 'secret', 'description']
  return [head, head.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

if (import.meta.main) console.log(settingsTable())
