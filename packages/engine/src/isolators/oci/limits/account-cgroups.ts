import { accessSync, constants, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { type CgroupLayout, layoutOfThisMachine, usedControllers } from './cgroups.ts'

/**
 * Control groups of an ordinary account: its v2 group, if that was delegated (`systemd-run --user --scope -p
 * Delegate=yes`, or a service with `Delegate=yes`). A v1 hierarchy is never delegated.
 *
 * A v2 group has either processes or limited children, so all processes of the delegated group move to a child of it.
 */
const OURS = 'sandkasten-engine'

/** Empty where nothing is delegated. */
export function accountLayout(): CgroupLayout {
  const root = layoutOfThisMachine().v2?.root
  const path = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1]
  if (root === undefined || path === undefined) return { v1: {} }
  return delegatedLayout(join(root, path))
}

export function delegatedLayout(own: string): CgroupLayout {
  const folder = basename(own) === OURS ? dirname(own) : own
  try {
    for (const name of ['', 'cgroup.procs', 'cgroup.subtree_control'])
      accessSync(join(folder, name), constants.W_OK)
    const controllers = readFileSync(join(folder, 'cgroup.controllers'), 'utf8').split(/\s+/).filter(Boolean)
    return { v1: {}, v2: { root: folder, controllers } }
  } catch {
    return { v1: {} }
  }
}

export function prepareDelegation(layout: CgroupLayout, parent: string): void {
  if (!layout.v2) return
  const { root } = layout.v2
  mkdirSync(join(root, parent), { recursive: true })
  const controllers = usedControllers(layout)
  if (controllers.length === 0) return
  const enable = controllers.map((name) => `+${name}`).join(' ')
  const procs = readFileSync(join(root, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)
  if (procs.length > 0) mkdirSync(join(root, OURS), { recursive: true })
  for (const pid of procs) writeFileSync(join(root, OURS, 'cgroup.procs'), pid)
  for (const folder of [root, join(root, parent)])
    writeFileSync(join(folder, 'cgroup.subtree_control'), enable)
}
