import { base } from './base.ts'
import { files } from './files.ts'

/**
 * The agent for files: a small Perl program inside the sandbox, run once for each call, because the vendor's own calls
 * distinguish only two errors. It is written in Perl because nearly every image has it: Debian and Ubuntu require
 * `perl-base`. Responses are text: lines, base64, and a final dot. Programs have the agent of `shared/guest`.
 */
export const agentSource = `${base}${files}`
