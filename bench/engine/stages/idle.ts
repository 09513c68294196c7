/**
 * The memory of a sandbox with an idle shell, measured in two ways that must roughly agree:
 *
 * `engine.idle.memory` is the memory of its processes (PSS: a page shared by n processes counts 1/n), plus the growth
 * of kernel memory, divided by the number of sandboxes. Kernel memory is unreclaimable slab, page tables, per-CPU data,
 * stacks and other vmalloc. It is taken from the whole machine, because much of it (network namespaces, mounts) is not
 * accounted to a control group.
 *
 * `engine.idle.available` is the decrease of MemAvailable, divided likewise. It includes the effects of other
 * programs and of this one.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { inParallel, sampleOf } from '../../measure.ts'
import type { Ours, Sandbox } from '../subjects/ours.ts'
import { readOr } from '../workplace.ts'
import type { Bench, Stage } from './stage.ts'

export const idle: Stage = {
  title: 'Memory of an idle sandbox: shim, runner, bash, kernel',
  ids: ['engine.idle.memory', 'engine.idle.processes', 'engine.idle.kernel', 'engine.idle.available'],
  async run({ ours, quick, report, wants }: Bench) {
    if (!ours) return
    const [batches, size] = quick ? [3, 10] : [6, 25]
    const all: Sandbox[] = []
    const fill = async () => {
      const made = await inParallel(size, 4, () => createIdle(ours))
      all.push(...made)
      // The kernel frees some objects (RCU) with a delay.
      await sleep(500)
      return made
    }
    const values = {
      memory: [] as number[],
      processes: [] as number[],
      kernel: [] as number[],
      available: [] as number[],
    }
    try {
      // Not counted: it fills pools that are allocated once.
      await fill()
      for (let batch = 0; batch < batches; batch += 1) {
        const before = memory()
        const made = await fill()
        const after = memory()
        const kernel = (after.kernel - before.kernel) / size
        const processes = sampleOf(made.map((sandbox) => sum(ours.remainsOf(sandbox).pids.map(pss)))).p50
        values.processes.push(processes)
        values.kernel.push(kernel)
        values.memory.push(processes + kernel)
        values.available.push((before.available - after.available) / size)
      }
    } finally {
      await inParallel(all.length, 4, (index) => ours.destroy(all[index]!))
    }
    for (const [name, found] of Object.entries(values))
      if (wants(`engine.idle.${name}`)) report.add(`engine.idle.${name}`, found, 'KiB')
  },
}

async function createIdle(ours: Ours): Promise<Sandbox> {
  const sandbox = await ours.create()
  const shell = await sandbox.openShell()
  await shell.exec('true')
  return sandbox
}

function pss(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(readOr(`/proc/${pid}/smaps_rollup`) ?? '')?.[1] ?? 0)
}

/** In KiB. */
function memory(): { kernel: number; available: number } {
  const text = readFileSync('/proc/meminfo', 'utf8')
  const field = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0)
  // On most kernels stacks are part of vmalloc.
  const pages = Math.max(field('VmallocUsed'), field('KernelStack'))
  return {
    kernel: field('SUnreclaim') + field('PageTables') + field('Percpu') + pages,
    available: field('MemAvailable'),
  }
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
