import { spawn } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { SandboxError } from '@sandkasten/sdk'
import type { ContainerInspectInfo } from 'dockerode'
import type { GatewaySocket, SandboxPlace } from '../../isolator.ts'

/**
 * The network of a container with a policy. The daemon makes a namespace with only a loopback. `runner egress`
 * configures it and stays as the holder of its sockets until the container ends, also if this process ends before.
 * Needs root and a local daemon.
 *
 * Returns when the holder serves `gateway.socket`, or at once if one does already.
 */
export async function holdNetwork(
  runner: string,
  { State }: ContainerInspectInfo,
  { socket, owner }: GatewaySocket,
): Promise<void> {
  const args = ['egress', String(State.Pid), socket, ...(owner ? [`${owner.uid}:${owner.gid}`] : [])]
  const child = spawn(runner, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, cwd: '/' })
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(0, 1000)
  })
  const ready = Promise.withResolvers<boolean>()
  child.stdout.once('data', () => ready.resolve(true))
  child.once('error', ready.reject)
  child.once('close', () => ready.resolve(false))
  const served = await ready.promise.finally(() => {
    child.stdout.destroy()
    child.stderr.destroy()
    child.unref()
  })
  if (!served)
    throw new SandboxError('unsupported', `cannot connect the container to the gateway: ${said.trim()}`, {
      hint: 'Use the network `none`, or a kernel with nf_tables and TPROXY.',
    })
}

/** The daemon does not know the gateway's socket, so the next `attach` reads it from here. */
export function noteGateway(place: SandboxPlace, gateway: GatewaySocket | undefined): void {
  if (gateway) writeFileSync(noteOf(place), JSON.stringify(gateway), { mode: 0o600 })
  else rmSync(noteOf(place), { force: true })
}

export function notedGateway(place: SandboxPlace): GatewaySocket | undefined {
  try {
    return JSON.parse(readFileSync(noteOf(place), 'utf8')) as GatewaySocket
  } catch {
    return undefined
  }
}

const noteOf = ({ folder }: SandboxPlace) => join(folder, 'egress.json')
