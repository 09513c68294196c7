import { abortable } from '@sandkasten/sdk/provider'
import type { ProgressStep } from '../types.ts'
import { tell } from './run.ts'

export interface Passenger {
  readonly signal?: AbortSignal
  readonly onProgress?: (step: ProgressStep) => void
}

interface Flight<T> {
  readonly result: Promise<T>
  readonly stop: AbortController
  readonly passengers: Set<Passenger>
  /** What runs now, for a caller who joins later. */
  step?: ProgressStep
}

/**
 * Calls for the same key at the same time share one run and its result. The run is cancelled when all its callers are;
 * the last of them waits until it has cleaned up.
 */
export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>()

  async join(
    key: string,
    passenger: Passenger,
    run: (shared: Required<Passenger>) => Promise<T>,
  ): Promise<T> {
    for (;;) {
      passenger.signal?.throwIfAborted()
      const flight = this.#flights.get(key) ?? this.#start(key, run)
      // It was cancelled, which is nothing to this caller: run again.
      if (flight.stop.signal.aborted) await flight.result.catch(() => {})
      else return await this.#board(flight, passenger)
    }
  }

  #start(key: string, run: (shared: Required<Passenger>) => Promise<T>): Flight<T> {
    const stop = new AbortController()
    const passengers = new Set<Passenger>()
    const onProgress = (step: ProgressStep) => {
      flight.step = step
      for (const passenger of passengers) tell(passenger, step)
    }
    // Starts later, so that the first caller hears its progress.
    const result = Promise.resolve()
      .then(() => run({ signal: stop.signal, onProgress }))
      .finally(() => this.#flights.delete(key))
    result.catch(() => {})
    const flight: Flight<T> = { result, stop, passengers }
    this.#flights.set(key, flight)
    return flight
  }

  async #board(flight: Flight<T>, passenger: Passenger): Promise<T> {
    flight.passengers.add(passenger)
    if (flight.step) tell(passenger, flight.step)
    const { signal } = passenger
    try {
      return await abortable(flight.result, signal)
    } catch (error) {
      if (!signal?.aborted || flight.passengers.size > 1) throw error
      flight.stop.abort(signal.reason)
      return await flight.result
    } finally {
      flight.passengers.delete(passenger)
    }
  }
}
