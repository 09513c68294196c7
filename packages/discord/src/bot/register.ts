import { definitions } from '../commands/index.ts'
import { type REST, Routes, translated } from '../rest/rest.ts'

/** Registers the slash commands, if they differ from what Discord has. True: they were changed. */
export async function registerCommands(rest: REST, appId: string): Promise<boolean> {
  try {
    const wanted = definitions()
    const present = (await rest.get(Routes.applicationCommands(appId))) as unknown[]
    if (
      JSON.stringify(present.map(essence).sort(byName)) === JSON.stringify(wanted.map(essence).sort(byName))
    )
      return false
    await rest.put(Routes.applicationCommands(appId), { body: wanted })
    return true
  } catch (error) {
    throw translated(error, 'registering the commands')
  }
}

/** What a command means, without what Discord adds to it. */
function essence(command: unknown): Record<string, unknown> & { name: string } {
  const {
    name,
    description,
    options = [],
  } = command as { name: string; description: string; options?: unknown[] }
  return { name, description, options: options.map((one) => optionOf(one as Record<string, unknown>)) }
}

function optionOf(option: Record<string, unknown>): Record<string, unknown> {
  const keys = ['type', 'name', 'description', 'min_value', 'max_value', 'max_length']
  const flags = { required: option.required === true, autocomplete: option.autocomplete === true }
  const choices = ((option.choices as Array<{ name: string; value: unknown }>) ?? []).map(
    ({ name, value }) => ({ name, value }),
  )
  return { ...Object.fromEntries(keys.map((key) => [key, option[key] ?? null])), ...flags, choices }
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1
}
