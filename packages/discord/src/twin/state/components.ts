import type { Component } from './world.ts'

/** Discord's numbers of component types. */
export const ComponentType = {
  row: 1,
  button: 2,
  stringSelect: 3,
  textInput: 4,
  userSelect: 5,
  roleSelect: 6,
  mentionableSelect: 7,
  channelSelect: 8,
  section: 9,
  textDisplay: 10,
  thumbnail: 11,
  mediaGallery: 12,
  file: 13,
  separator: 14,
  container: 17,
  label: 18,
  fileUpload: 19,
} as const

export const SELECTS: readonly number[] = [3, 5, 6, 7, 8]

export function isSelect(type: number): boolean {
  return SELECTS.includes(type)
}

/** All components of a message or modal, with those inside of others. */
export function flatten(components: readonly Component[]): Component[] {
  return components.flatMap((component) => [
    component,
    ...flatten(component.components ?? []),
    ...flatten(component.component ? [component.component] : []),
    ...flatten(component.accessory ? [component.accessory] : []),
  ])
}
