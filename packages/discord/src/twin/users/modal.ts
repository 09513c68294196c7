import type { Core } from '../core.ts'
import { ComponentType, isSelect } from '../state/components.ts'
import type { ChannelRecord, Component, Modal } from '../state/world.ts'
import { type Resolved, resolveSelect } from './resolved.ts'

export type ModalValues = Readonly<Record<string, string | readonly string[]>>

/** The components of a modal's submission, with what their ids stand for. Fields are named by their custom id or label. */
export function fillModal(core: Core, channel: ChannelRecord, modal: Modal, values: ModalValues): object {
  let resolved: Resolved = {}
  const names = new Set(Object.keys(values))
  const fill = (input: Component, label: string | undefined) => {
    const name = [input.custom_id!, label ?? ''].find((candidate) => names.has(candidate))
    if (name !== undefined) names.delete(name)
    const value = name === undefined ? undefined : values[name]
    const base = { type: input.type, id: 1, custom_id: input.custom_id }
    if (isSelect(input.type)) {
      const chosen = value === undefined ? [] : [value].flat()
      resolved = { ...resolved, ...resolveSelect(core, channel, input, chosen) }
      return { ...base, values: chosen }
    }
    const text = value === undefined ? (input.value ?? '') : String(value)
    checkText(modal, input, label, text)
    return { ...base, value: text }
  }
  const components = modal.components.flatMap((component): object[] => {
    if (component.type === ComponentType.row) {
      const input = component.components![0]!
      return [{ type: 1, id: 1, components: [fill(input, input.label)] }]
    }
    if (component.type === ComponentType.label) {
      return [{ type: 18, id: 1, component: fill(component.component!, component.label) }]
    }
    return []
  })
  if (names.size > 0)
    throw new Error(
      `the modal "${modal.title}" has no field ${[...names].join(', ')}; its fields are: ${fields(modal).join(', ')}`,
    )
  return { components, ...(Object.keys(resolved).length > 0 && { resolved }) }
}

/** Custom ids of a modal's fields. */
export function fields(modal: Modal): string[] {
  return modal.components.flatMap(({ components = [], component }) =>
    [...components, ...(component ? [component] : [])].map((input) => input.custom_id!),
  )
}

function checkText(modal: Modal, input: Component, label: string | undefined, text: string): void {
  const fail = (reason: string) =>
    new Error(`the modal "${modal.title}": field "${label ?? input.custom_id}" ${reason}`)
  if (text === '') {
    if (input.required !== false) throw fail('is required')
    return
  }
  if (text.length > (input.max_length ?? 4000)) throw fail(`takes ${input.max_length ?? 4000} characters`)
  if (text.length < (input.min_length ?? 0)) throw fail(`needs ${input.min_length} characters`)
}
