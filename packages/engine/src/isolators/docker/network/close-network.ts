import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { isIP } from 'node:net'
import { SandboxError } from '@sandkasten/sdk'
import type { ContainerInspectInfo } from 'dockerode'
import { readText } from '../../../read-files.ts'
import { type OpenNetwork, openRules } from '../../open-network.ts'

/**
 * Closes the network of a container that was just started, like that of an `oci` sandbox. The runner is its only
 * process and does nothing before we connect. Addresses that this machine gets later are not covered. Needs root and
 * a local daemon.
 */
export async function closeNetwork(
  runner: string,
  { State, ResolvConfPath }: ContainerInspectInfo,
  open: OpenNetwork,
): Promise<void> {
  const rules = openRules(open, resolversIn(ResolvConfPath))
  const child = spawn(runner, ['fence', String(State.Pid)], { stdio: ['pipe', 'ignore', 'pipe'] })
  child.stdin.on('error', () => {})
  child.stdin.end(rules.join('\n'))
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, 1000)
  })
  const [code] = await once(child, 'close')
  if (code !== 0)
    throw new SandboxError('unsupported', `cannot restrict the container’s network: ${said.trim()}`, {
      hint: 'Use the network `none`, or a kernel with nf_tables.',
    })
}

/** Loopback addresses are the container's own. */
function resolversIn(file: string): string[] {
  const found = (readText(file) ?? '').split('\n').map((line) => /^nameserver\s+(\S+)/.exec(line)?.[1])
  return found
    .filter((address): address is string => address !== undefined && isIP(address) !== 0)
    .filter((address) => !address.startsWith('127.') && address !== '::1')
    .slice(0, 8)
}
