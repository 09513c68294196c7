import { createHash } from 'node:crypto'
import { base } from './base.ts'
import { lifecycle } from './lifecycle.ts'
import { programs } from './programs.ts'
import { runner } from './runner.ts'
import { shells } from './shells.ts'

/** The whole agent. Its file name on the host contains its hash, so that two versions of this library do not share it. */
export const agentScript = `#!/bin/sh\n${[base, programs, shells, runner, lifecycle].join('').replaceAll('@{', '${')}`
export const agentName = `agent-${createHash('sha256').update(agentScript).digest('hex').slice(0, 16)}.sh`
