import type { RawData, WebSocket } from 'ws'
import { type Core, Intent, PRIVILEGED_INTENTS } from '../core.ts'
import { applicationFlags, guildCreatePayload, memberPayload, userPayload } from '../state/payloads.ts'
import type { GatewayState } from './server.ts'
import { dispatch, isOver, replay, type Session } from './session.ts'

/** Close codes of the gateway. */
const Close = {
  unknownOpcode: [4001, 'Unknown opcode.'],
  decodeError: [4002, 'Error while decoding payload.'],
  notAuthenticated: [4003, 'Not authenticated.'],
  authenticationFailed: [4004, 'Authentication failed.'],
  alreadyAuthenticated: [4005, 'Already authenticated.'],
  invalidSequence: [4007, 'Invalid seq.'],
  rateLimited: [4008, 'Rate limited.'],
  sessionTimedOut: [4009, 'Session timed out.'],
  invalidIntents: [4013, 'Invalid intent(s).'],
  disallowedIntents: [4014, 'Disallowed intent(s).'],
} as const

const ALL_INTENTS = (1 << 26) - 1
const PAYLOADS_PER_MINUTE = 120
const PAYLOAD_BYTES = 4096

interface Payload {
  op: number
  d: Record<string, unknown> | number | null
}

/** Speaks the gateway's protocol on one connection. */
export function createConnection(core: Core, state: GatewayState, socket: WebSocket): void {
  let session: Session | undefined
  let heartbeatAt = Date.now()
  let windowStart = Date.now()
  let payloads = 0

  const send = (payload: object) => socket.send(JSON.stringify(payload))
  const close = ([code, reason]: readonly [number, string]) => socket.close(code, reason)

  send({ op: 10, d: { heartbeat_interval: core.limits.heartbeatIntervalMs, _trace: ['twin'] } })
  const watch = setInterval(() => {
    if (Date.now() - heartbeatAt > core.limits.heartbeatIntervalMs * 2) close(Close.sessionTimedOut)
  }, core.limits.heartbeatIntervalMs)

  socket.on('message', (raw) => {
    if (Date.now() - windowStart > 60_000) {
      windowStart = Date.now()
      payloads = 0
    }
    if (++payloads > PAYLOADS_PER_MINUTE) return close(Close.rateLimited)
    const payload = String(raw).length > PAYLOAD_BYTES ? undefined : decode(raw)
    if (!payload) return close(Close.decodeError)
    receive(payload)
  })
  socket.on('error', () => socket.terminate())
  socket.on('close', (code) => {
    clearInterval(watch)
    if (session?.socket !== socket) return
    session.socket = undefined
    session.lostAt = core.clock.now()
    // A client that closes with 1000 or 1001 gives its session up.
    if (code === 1000 || code === 1001) state.sessions.delete(session.id)
    core.changes.emit('change')
  })

  function receive({ op, d }: Payload): void {
    if (op === 1) {
      heartbeatAt = Date.now()
      if (!state.isZombie) send({ op: 11 })
      return
    }
    const data = typeof d === 'object' && d ? d : {}
    if (op === 2) return identify(data)
    if (op === 6) return resume(data)
    if (op !== 3 && op !== 4 && op !== 8) return close(Close.unknownOpcode)
    if (!session) return close(Close.notAuthenticated)
    if (op === 8) requestMembers(core, session, data)
  }

  function identify(data: Record<string, unknown>): void {
    if (session) return close(Close.alreadyAuthenticated)
    const bot = findBot(core, data.token)
    if (!bot) return close(Close.authenticationFailed)
    const { intents } = data
    if (typeof intents !== 'number' || intents & ~ALL_INTENTS) return close(Close.invalidIntents)
    if (intents & PRIVILEGED_INTENTS & ~bot.privilegedIntents) return close(Close.disallowedIntents)
    session = { id: crypto.randomUUID().replaceAll('-', ''), bot, intents, sequence: 0, events: [], socket }
    state.sessions.set(session.id, session)
    core.counters.record.gateway('identifies')
    greet(core, session)
    core.changes.emit('change')
  }

  function resume(data: Record<string, unknown>): void {
    if (session) return close(Close.alreadyAuthenticated)
    const bot = findBot(core, data.token)
    if (!bot) return close(Close.authenticationFailed)
    const known = state.sessions.get(String(data.session_id))
    const sequence = typeof data.seq === 'number' ? data.seq : -1
    if (!known || known.bot !== bot || isOver(core, known)) return send({ op: 9, d: false })
    if (sequence > known.sequence) return close(Close.invalidSequence)
    const previous = known.socket
    known.socket = socket
    if (!replay(known, sequence)) {
      state.sessions.delete(known.id)
      return send({ op: 9, d: false })
    }
    if (previous && previous !== socket) previous.terminate()
    known.lostAt = undefined
    session = known
    core.counters.record.gateway('resumes')
    dispatch(session, 'RESUMED', { _trace: ['twin'] }, core.limits.resumeEvents)
    core.changes.emit('change')
  }
}

function greet(core: Core, session: Session): void {
  const { world, limits } = core
  const { bot, intents } = session
  const guilds = [...world.guilds.values()].filter(({ members }) => members.has(bot.id))
  const ready = {
    v: 10,
    user: { ...userPayload(world.users.get(bot.id)!), verified: true, email: null, mfa_enabled: true },
    guilds: guilds.map(({ id }) => ({ id, unavailable: true })),
    session_id: session.id,
    session_type: 'normal',
    resume_gateway_url: core.origin.replace('http', 'ws'),
    shard: [0, 1],
    application: { id: bot.id, flags: applicationFlags(bot) },
    private_channels: [],
    presences: [],
    relationships: [],
    user_settings: {},
    geo_ordered_rtc_regions: [],
    guild_join_requests: [],
    auth: {},
    _trace: ['twin'],
  }
  dispatch(session, 'READY', ready, limits.resumeEvents)
  if (!(intents & Intent.guilds)) return
  for (const guild of guilds) {
    if (guild.isUnavailable) continue
    const seesMembers = Boolean(intents & Intent.guildMembers)
    const payload = guildCreatePayload(world, guild, { botId: bot.id, intents }, seesMembers)
    dispatch(session, 'GUILD_CREATE', payload, limits.resumeEvents)
  }
}

function requestMembers(core: Core, session: Session, data: Record<string, unknown>): void {
  const guild = core.world.guilds.get(String(data.guild_id))
  if (!guild?.members.has(session.bot.id)) return
  const wanted = data.user_ids === undefined ? undefined : [data.user_ids].flat().map(String)
  const query = typeof data.query === 'string' ? data.query.toLowerCase() : ''
  const limit = typeof data.limit === 'number' && data.limit > 0 ? data.limit : Number.POSITIVE_INFINITY
  const ids = [...guild.members.keys()].filter((id) =>
    wanted ? wanted.includes(id) : core.world.users.get(id)!.name.toLowerCase().startsWith(query),
  )
  const chunk = {
    guild_id: guild.id,
    members: ids.slice(0, Math.min(limit, ids.length)).map((id) => memberPayload(core.world, guild, id)),
    chunk_index: 0,
    chunk_count: 1,
    not_found: wanted?.filter((id) => !guild.members.has(id)) ?? [],
    ...(typeof data.nonce === 'string' && { nonce: data.nonce }),
  }
  dispatch(session, 'GUILD_MEMBERS_CHUNK', chunk, core.limits.resumeEvents)
}

function findBot(core: Core, token: unknown) {
  const bare = typeof token === 'string' ? token.replace(/^Bot /, '') : ''
  return [...core.world.bots.values()].find((bot) => bot.token === bare)
}

function decode(raw: RawData): Payload | undefined {
  try {
    const value: unknown = JSON.parse(String(raw))
    if (typeof value !== 'object' || value === null || !('op' in value) || typeof value.op !== 'number')
      return undefined
    return { op: value.op, d: ('d' in value ? value.d : null) as Payload['d'] }
  } catch {
    return undefined
  }
}
