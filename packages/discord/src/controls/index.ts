import { answers } from './answers.ts'
import type { Control } from './control.ts'
import { destroying } from './destroy.ts'
import { progress } from './progress.ts'
import { setup } from './setup.ts'

export const controls: ReadonlyMap<string, Control> = new Map(
  [...answers, ...progress, ...destroying, setup].map((control) => [control.name, control]),
)

/** The control that an id belongs to, and the rest of the id. */
export function controlOf(id: string): { control: Control; argument: string } | undefined {
  const at = id.indexOf(':')
  const control = controls.get(id.slice(0, at))
  return control && { control, argument: id.slice(at + 1) }
}
