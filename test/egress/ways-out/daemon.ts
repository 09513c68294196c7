/** The daemon’s listeners, at every address of the host and by names that lead there. */
import { DAEMON, HOST } from '../world/addresses.ts'
import { type EventPattern, python, staysInside, type Way } from './way.ts'

interface Target {
  readonly name: string
  readonly address: string
  readonly event: EventPattern | { readonly unseen: string }
  /** Whether a policy can open it by naming it. */
  readonly opens?: boolean
}

const at = (name: string, address: string, recorded = address): Target => ({
  name,
  address,
  event: { address: recorded, reason: 'private_address' },
  opens: true,
})

/** No client finds a name whose addresses are all inside. */
const byName = (name: string): Target => ({
  name,
  address: `${name}.wild.example`,
  event: { kind: 'dns', host: `${name}.wild.example`, reason: 'private_address' },
})

const targets: readonly Target[] = [
  at('lan', HOST.lan),
  at('public', HOST.public),
  at('v6', HOST.v6),
  at('mapped', `::ffff:${HOST.lan}`, HOST.lan),
  { name: 'link-local', address: HOST.linkLocal, event: { address: HOST.linkLocal } },
  { name: 'loopback', address: '127.0.0.1', event: staysInside },
  { name: 'loopback-v6', address: '::1', event: staysInside },
  { name: 'zero', address: '0.0.0.0', event: staysInside },
  { name: 'zero-v6', address: '::', event: staysInside },
  byName('lan'),
  byName('host'),
  byName('loopback'),
].map((target, index, all) => ({
  ...target,
  name: all.findIndex(({ name }) => name === target.name) === index ? target.name : `${target.name}-name`,
}))

const listeners = Object.entries(DAEMON)

export const daemon: readonly Way[] = listeners.flatMap(([listener, port]) =>
  targets.map(({ name, address, event, opens = false }) =>
    python(
      `daemon-${listener}-${name}`,
      `the daemon’s listener ${listener} at ${address}`,
      address === HOST.linkLocal
        ? `
for device in devices():
    try: ask_daemon(('${address}', ${port}, 0, socket.if_nametoindex(device)))
    except OSError as error: print(error)`
        : `ask_daemon(('${address}', ${port}))`,
      { event: 'unseen' in event || event.kind === 'dns' ? event : { ...event, port }, opens },
    ),
  ),
)
