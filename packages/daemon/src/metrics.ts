/**
 * Counters, gauges and histograms in Prometheus' text format: a hundred lines instead of a package and its
 * dependencies.
 */
type Labels = Readonly<Record<string, string | number>>

const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120]

export class Metrics {
  readonly #help = new Map<string, { type: 'counter' | 'gauge' | 'histogram'; help: string }>()
  readonly #values = new Map<string, Map<string, number>>()
  readonly #histograms = new Map<string, Map<string, { counts: number[]; sum: number; count: number }>>()
  readonly #gauges: Array<() => Promise<void> | void> = []

  constructor() {
    this.#define('sandkasten_http_requests_total', 'counter', 'Requests, by route and status.')
    this.#define('sandkasten_http_request_seconds', 'histogram', 'Time to respond, by route.')
    this.#define('sandkasten_session_create_seconds', 'histogram', 'Time to create a session.')
    this.#define('sandkasten_session_ends_total', 'counter', 'Sessions that ended, by status.')
    this.#define('sandkasten_preview_requests_total', 'counter', 'Requests to previews, by status.')
    this.#define('sandkasten_commands_total', 'counter', 'Commands started, by kind.')
    this.#define('sandkasten_sessions', 'gauge', 'Sessions by status.')
    this.#define('sandkasten_preview_connections', 'gauge', 'Open requests and WebSockets to previews.')
    this.#define('sandkasten_pool_ready', 'gauge', 'Ready sandboxes in the pool, by image.')
    this.#define('sandkasten_open_streams', 'gauge', 'Open event streams and terminals.')
    this.#define('sandkasten_store_bytes', 'gauge', 'Size of the kept data in the database, by kind.')
    this.#define('sandkasten_store_file_bytes', 'gauge', 'Size of the database file (SQLite).')
    this.#define('sandkasten_store_up', 'gauge', 'Whether the database responds.')
    this.#define(
      'sandkasten_result_memory_bytes',
      'gauge',
      'Memory of collected output and unread responses.',
    )
    this.#define(
      'sandkasten_defects_total',
      'counter',
      'Unhandled errors in the daemon, by kind. Please report them.',
    )
    this.#define(
      'sandkasten_token_keys_age_seconds',
      'gauge',
      'Time since the keys that verify tokens were read. Absent without keys.',
    )
    this.#define(
      'sandkasten_egress_decisions_total',
      'counter',
      'Connections, requests and lookups of sessions with a network policy, by verdict.',
    )
    this.#define('sandkasten_egress_bytes_total', 'counter', 'Bytes of ended connections, by direction.')
    this.#define(
      'sandkasten_egress_connections',
      'gauge',
      'Open connections of sessions with a network policy.',
    )
    this.#define('process_resident_memory_bytes', 'gauge', 'Memory of the daemon.')
    this.#define('process_start_time_seconds', 'gauge', 'When the daemon was started.')
  }

  count(name: string, labels: Labels = {}, by = 1): void {
    const series = this.#series(name)
    const key = keyOf(labels)
    series.set(key, (series.get(key) ?? 0) + by)
  }

  set(name: string, labels: Labels, value: number): void {
    this.#series(name).set(keyOf(labels), value)
  }

  observe(name: string, labels: Labels, seconds: number): void {
    const series = ensure(this.#histograms, name, () => new Map())
    const empty = () => ({ counts: secondsBuckets.map(() => 0), sum: 0, count: 0 })
    const histogram = ensure(series, keyOf(labels), empty)
    const bucket = secondsBuckets.findIndex((limit) => seconds <= limit)
    if (bucket !== -1) histogram.counts[bucket]! += 1
    histogram.sum += seconds
    histogram.count += 1
  }

  /** Registers a function that sets gauges before every scrape. */
  onRead(gauge: () => Promise<void> | void): void {
    this.#gauges.push(gauge)
  }

  clear(name: string): void {
    this.#values.delete(name)
  }

  async text(): Promise<string> {
    for (const gauge of this.#gauges) await gauge()
    const lines: string[] = []
    for (const [name, { type, help }] of this.#help) {
      lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`)
      for (const [key, value] of this.#values.get(name) ?? []) lines.push(`${name}${wrap(key)} ${value}`)
      for (const [key, { counts, sum, count }] of this.#histograms.get(name) ?? []) {
        let total = 0
        for (const [index, limit] of secondsBuckets.entries()) {
          total += counts[index]!
          lines.push(`${name}_bucket${wrap(join(key, `le="${limit}"`))} ${total}`)
        }
        lines.push(`${name}_bucket${wrap(join(key, 'le="+Inf"'))} ${count}`)
        lines.push(`${name}_sum${wrap(key)} ${sum}`, `${name}_count${wrap(key)} ${count}`)
      }
    }
    return `${lines.join('\n')}\n`
  }

  #define(name: string, type: 'counter' | 'gauge' | 'histogram', help: string): void {
    this.#help.set(name, { type, help })
  }

  #series(name: string): Map<string, number> {
    return ensure(this.#values, name, () => new Map())
  }
}

function ensure<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key)
  if (known !== undefined) return known
  const made = make()
  map.set(key, made)
  return made
}

/** Label values are our route patterns and statuses, never text of a caller. */
function keyOf(labels: Labels): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}="${value}"`)
    .join(',')
}

const wrap = (key: string): string => (key === '' ? '' : `{${key}}`)
const join = (a: string, b: string): string => (a === '' ? b : `${a},${b}`)
