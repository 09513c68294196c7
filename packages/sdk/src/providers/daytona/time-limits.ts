/** How long things may take. */
export interface TimeLimits {
  /** A sandbox from one state to the next. */
  readonly startMs: number
  /** One request. */
  readonly requestMs: number
}
