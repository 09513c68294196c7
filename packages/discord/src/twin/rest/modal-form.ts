import { ComponentType, flatten, isSelect } from '../state/components.ts'
import type { Component, Modal } from '../state/world.ts'
import { checkSelect, checkUniqueIds } from './component-form.ts'
import { type Body, Form, type Path } from './form.ts'

/** Checks a modal: a title, and one to five rows or labels with one input each. */
export function parseModal(data: Body): Modal {
  const form = new Form()
  const title = form.text(['data', 'title'], data.title, { min: 1, max: 45, required: true })
  const id = form.text(['data', 'custom_id'], data.custom_id, { min: 1, max: 100, required: true })
  const components = (form.list(['data', 'components'], data.components) ?? []) as Component[]
  form.length(['data', 'components'], components, 1, 5)
  for (const [index, component] of components.entries()) {
    const path = ['data', 'components', index]
    form.choice([...path, 'type'], component.type, [
      ComponentType.row,
      ComponentType.label,
      ComponentType.textDisplay,
    ])
    if (component.type === ComponentType.row) {
      form.length([...path, 'components'], component.components ?? [], 1, 1)
      const input = component.components?.[0]
      if (input) checkInput(form, [...path, 'components', 0], input, true)
    }
    if (component.type === ComponentType.label) {
      form.text([...path, 'label'], component.label, { min: 1, max: 45, required: true })
      form.text([...path, 'description'], component.description, { max: 100 })
      if (component.component) checkInput(form, [...path, 'component'], component.component, false)
      else form.required([...path, 'component'])
    }
  }
  checkUniqueIds(form, ['data', 'components'], flatten(components))
  form.throwIfAny()
  return { custom_id: id!, title: title!, components }
}

function checkInput(form: Form, path: Path, input: Component, needsLabel: boolean): void {
  const inRow: readonly number[] = [ComponentType.textInput]
  const inLabel = [ComponentType.textInput, 3, 5, 6, 7, 8, ComponentType.fileUpload]
  form.choice([...path, 'type'], input.type, needsLabel ? inRow : inLabel)
  if (isSelect(input.type)) return checkSelect(form, path, input)
  form.text([...path, 'custom_id'], input.custom_id, { min: 1, max: 100, required: true })
  if (input.type !== ComponentType.textInput) return
  if (needsLabel) form.text([...path, 'label'], input.label, { min: 1, max: 45, required: true })
  form.text([...path, 'placeholder'], input.placeholder, { max: 100 })
  form.text([...path, 'value'], input.value, { max: input.max_length ?? 4000 })
  if (input.style === undefined) form.required([...path, 'style'])
  form.choice([...path, 'style'], input.style, [1, 2])
}
