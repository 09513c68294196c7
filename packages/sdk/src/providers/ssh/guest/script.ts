import { createHash } from 'node:crypto'
import { base } from '../../../shared/guest/base.ts'
import { family } from '../../../shared/guest/family.ts'
import { keeper } from '../../../shared/guest/keeper.ts'
import { verbs } from '../../../shared/guest/verbs.ts'
import { lifecycle } from './lifecycle.ts'
import { runner } from './runner.ts'
import { sandboxes } from './sandboxes.ts'

/** The whole agent. Its file name on the host contains its hash, so that two versions of this library do not share it. */
const parts = [base, sandboxes, family, keeper, verbs, runner, lifecycle]
export const agentScript = `#!/bin/sh\n${parts.join('\n').replaceAll('@{', '${')}`
export const agentName = `agent-${createHash('sha256').update(agentScript).digest('hex').slice(0, 16)}.sh`
