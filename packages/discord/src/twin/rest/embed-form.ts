import type { Embed } from '../state/world.ts'
import type { Form, Path } from './form.ts'

const TOTAL_LENGTH = 6000

export function checkEmbeds(form: Form, path: Path, embeds: readonly Embed[]): void {
  form.length(path, embeds, 0, 10)
  let total = 0
  for (const [index, embed] of embeds.entries()) {
    const at = [...path, index]
    const check = (key: string, value: unknown, max: number, required = false) => {
      total += form.text([...at, ...key.split('.')], value, { max, required })?.length ?? 0
    }
    check('title', embed.title, 256)
    check('description', embed.description, 4096)
    if (embed.footer) check('footer.text', embed.footer.text, 2048, true)
    if (embed.author) check('author.name', embed.author.name, 256, true)
    const fields = form.list([...at, 'fields'], embed.fields) ?? []
    form.length([...at, 'fields'], fields, 0, 25)
    for (const [number, field] of fields.entries()) {
      check(`fields.${number}.name`, field.name, 256, true)
      check(`fields.${number}.value`, field.value, 1024, true)
    }
  }
  if (total > TOTAL_LENGTH) {
    form.add(path, 'MAX_EMBED_SIZE_EXCEEDED', `Embed size exceeds maximum size of ${TOTAL_LENGTH}`)
  }
}
