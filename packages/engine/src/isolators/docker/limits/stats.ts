import type { ContainerStats } from 'dockerode'
import type { SandboxStats } from '../../isolator.ts'

/** Translates the daemon's statistics. */
export function statsFrom({ memory_stats, pids_stats, cpu_stats }: ContainerStats): SandboxStats {
  const all = {
    memoryBytes: memory_stats?.usage,
    memoryLimitBytes: memory_stats?.limit,
    pids: pids_stats?.current,
    cpuUsec: fromNsec(cpu_stats?.cpu_usage?.total_usage),
    throttledUsec: fromNsec(cpu_stats?.throttling_data?.throttled_time),
  }
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined))
}

const fromNsec = (value: number | undefined) => (value === undefined ? undefined : Math.round(value / 1000))
