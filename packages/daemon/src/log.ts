import { pino } from 'pino'
import type { DaemonConfig } from './config/index.ts'
import { textOf } from './log-text.ts'

/** The part of a logger that the daemon uses. The implementation is pino. */
export interface Log {
  debug(facts: object, message: string): void
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** The daemon's log on stderr: lines for people on a terminal, JSON lines elsewhere. */
export function openLog({ log_level, log_format }: Pick<DaemonConfig, 'log_level' | 'log_format'>): Log {
  const stderr = pino.destination({ fd: 2, sync: true })
  // The terminal or the reader of a pipe may close first. The daemon keeps running.
  stderr.on('error', () => {})
  const isText = log_format === 'text' || (log_format === 'auto' && process.stderr.isTTY === true)
  const colors = process.stderr.isTTY === true && !process.env.NO_COLOR
  const destination = isText
    ? { write: (line: string) => void stderr.write(textOf(line, { colors })) }
    : stderr
  return pino({ level: log_level, base: {} }, destination)
}
