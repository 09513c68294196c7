import { ComponentType, flatten, isSelect, SELECTS } from '../state/components.ts'
import type { Component, SelectOption } from '../state/world.ts'
import type { Form, Path } from './form.ts'

const LAYOUT_V2: readonly number[] = [1, 9, 10, 12, 13, 14, 17]
const LINK_STYLE = 5

export function checkComponents(
  form: Form,
  path: Path,
  components: readonly Component[],
  usesV2: boolean,
): void {
  const all = flatten(components)
  if (usesV2) {
    if (all.length > 40) form.length(path, all, 0, 40)
    const text = all.reduce(
      (sum, { type, content }) => sum + (type === ComponentType.textDisplay ? (content?.length ?? 0) : 0),
      0,
    )
    if (text > 4000)
      form.add(
        path,
        'COMPONENT_MAX_TEXT_LENGTH',
        'The total text of all components must be 4000 or fewer in length.',
      )
  } else {
    form.length(path, components, 0, 5)
  }
  for (const [index, component] of components.entries()) {
    form.choice([...path, index, 'type'], component.type, usesV2 ? LAYOUT_V2 : [ComponentType.row])
    checkTree(form, [...path, index], component)
  }
  checkUniqueIds(form, path, all)
}

function checkTree(form: Form, path: Path, component: Component): void {
  const { type, components = [] } = component
  if (type === ComponentType.row) checkRow(form, path, components)
  if (type === ComponentType.button) checkButton(form, path, component)
  if (isSelect(type)) checkSelect(form, path, component)
  if (type === ComponentType.textDisplay)
    form.text([...path, 'content'], component.content, { min: 1, required: true })
  for (const [index, child] of components.entries()) checkTree(form, [...path, 'components', index], child)
  if (component.accessory) checkTree(form, [...path, 'accessory'], component.accessory)
}

function checkRow(form: Form, path: Path, children: readonly Component[]): void {
  const at = [...path, 'components']
  const hasSelect = children.some(({ type }) => isSelect(type))
  form.length(at, children, 1, hasSelect ? 1 : 5)
  for (const [index, { type }] of children.entries()) {
    form.choice([...at, index, 'type'], type, [ComponentType.button, ...SELECTS])
  }
}

function checkButton(form: Form, path: Path, button: Component): void {
  form.text([...path, 'label'], button.label, { max: 80 })
  form.choice([...path, 'style'], button.style, [1, 2, 3, 4, 5, 6])
  if (button.style === LINK_STYLE)
    form.text([...path, 'url'], button.url, { min: 1, max: 512, required: true })
  else form.text([...path, 'custom_id'], button.custom_id, { min: 1, max: 100, required: true })
  if (!button.label && !button.emoji) {
    form.add(path, 'BUTTON_COMPONENT_INVALID_LABEL_OR_EMOJI', 'A button must have a label or an emoji')
  }
}

export function checkSelect(form: Form, path: Path, select: Component): void {
  form.text([...path, 'custom_id'], select.custom_id, { min: 1, max: 100, required: true })
  form.text([...path, 'placeholder'], select.placeholder, { max: 150 })
  const { min_values: min = 1, max_values: max = 1 } = select
  if (min < 0 || min > 25)
    form.add([...path, 'min_values'], 'NUMBER_TYPE_MAX', 'int value should be between 0 and 25.')
  if (max < 1 || max > 25)
    form.add([...path, 'max_values'], 'NUMBER_TYPE_MAX', 'int value should be between 1 and 25.')
  if (select.type !== ComponentType.stringSelect) return
  const options = (form.list([...path, 'options'], select.options) ?? []) as unknown as SelectOption[]
  form.length([...path, 'options'], options, 1, 25)
  if (max > options.length)
    form.add(
      [...path, 'max_values'],
      'SELECT_COMPONENT_MAX_VALUES',
      'max_values may not exceed the number of options',
    )
  const seen = new Set<string>()
  for (const [index, option] of options.entries()) {
    const at = [...path, 'options', index]
    form.text([...at, 'label'], option.label, { min: 1, max: 100, required: true })
    form.text([...at, 'value'], option.value, { min: 1, max: 100, required: true })
    form.text([...at, 'description'], option.description, { max: 100 })
    if (seen.has(option.value))
      form.add(
        [...at, 'value'],
        'SELECT_COMPONENT_OPTION_VALUE_DUPLICATED',
        'The specified option value is already used',
      )
    seen.add(option.value)
  }
}

export function checkUniqueIds(form: Form, path: Path, all: readonly Component[]): void {
  const seen = new Set<string>()
  for (const { custom_id } of all) {
    if (custom_id === undefined) continue
    if (seen.has(custom_id))
      form.add(path, 'COMPONENT_CUSTOM_ID_DUPLICATED', 'Component custom id cannot be duplicated')
    seen.add(custom_id)
  }
}
