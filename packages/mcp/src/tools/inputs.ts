import path from 'node:path'
import { z } from 'zod'
import type { OpenSandbox } from '../sources/index.ts'
import { limits } from './limits.ts'

/** Inputs that several tools have. */

export const pathInput = (description: string) =>
  z.string().min(1).max(limits.pathChars).describe(description)

export const cmdInput = z
  .string()
  .min(1)
  .max(limits.cmdChars)
  .describe('The shell command, for example: npm test 2>&1 | tail -20')

export const cwdInput = pathInput('The folder to run in. Default: the project folder.').optional()

export const count = (max: number, description: string) => z.int().min(1).max(max).describe(description)

/** A path as the model writes it: relative to the folder in which commands run. */
export function inSandbox({ directory }: Pick<OpenSandbox, 'directory'>, given: string): string {
  return path.posix.resolve(directory, given)
}

/** Runs a command with bash where it is installed, otherwise with sh. */
export function shellCommand(cmd: string): { cmd: string; args: string[] } {
  return {
    cmd: 'sh',
    args: ['-c', 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec sh -c "$1"', 'sh', cmd],
  }
}
