/** Selects events of the gateway. An absent field selects all. */
export interface EventFilter {
  /** For example `MESSAGE_CREATE`. */
  readonly name?: string
  readonly botId?: string
  /** How many events are affected; all without it. */
  readonly times?: number
}

export interface HeldEvents {
  /** How many events are held now. */
  readonly count: number
  /** Sends the held events and ends the fault. */
  release(options?: { isReversed?: boolean }): void
}

/** Disturbs the delivery of events. */
export interface EventFaults {
  delay(ms: number, filter?: EventFilter): void
  duplicate(filter?: EventFilter): void
  hold(filter?: EventFilter): HeldEvents
  clear(): void
}

export interface EventFaultRules extends EventFaults {
  /** Sends an event, or does what a fault says. */
  send(event: { name: string; botId: string }, run: () => void): void
}

interface Rule {
  readonly filter: EventFilter
  left: number
  readonly apply: (run: () => void) => void
}

export function createEventFaults(): EventFaultRules {
  const rules = new Set<Rule>()
  const add = (filter: EventFilter, apply: Rule['apply']): Rule => {
    const rule = { filter, left: filter.times ?? Number.POSITIVE_INFINITY, apply }
    rules.add(rule)
    return rule
  }

  return {
    delay(ms, filter = {}) {
      add(filter, (run) => void setTimeout(run, ms).unref())
    },
    duplicate(filter = {}) {
      add(filter, (run) => {
        run()
        run()
      })
    },
    hold(filter = {}) {
      const held: (() => void)[] = []
      const rule = add(filter, (run) => void held.push(run))
      return {
        get count() {
          return held.length
        },
        release({ isReversed = false } = {}) {
          rules.delete(rule)
          const runs = held.splice(0)
          for (const run of isReversed ? runs.reverse() : runs) run()
        },
      }
    },
    clear: () => rules.clear(),
    send({ name, botId }, run) {
      for (const rule of rules) {
        if (rule.filter.name !== undefined && rule.filter.name !== name) continue
        if (rule.filter.botId !== undefined && rule.filter.botId !== botId) continue
        if (rule.left <= 0) continue
        rule.left--
        return rule.apply(run)
      }
      run()
    },
  }
}
