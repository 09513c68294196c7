import { base } from './base.ts'
import { files } from './files.ts'
import { keeper } from './keeper.ts'
import { processes } from './processes.ts'

/**
 * The agent: a small Perl program inside the sandbox, run once for each call. The vendor's own calls merge stdout and
 * stderr, do not report signals, do not number output, and distinguish only two file errors.
 *
 *     executeCommand ──► agent ──► socket ──► keeper ──► program      responses are text: lines, base64, and a final dot
 *
 * It is written in Perl because nearly every image has it: Debian and Ubuntu require `perl-base`. Rejected alternatives:
 * the vendor's sessions (text only, unbounded logs, only a whole session can be killed), and a shell script (it cannot
 * wait for two pipes, or read available bytes without losing some). Repeating a call with the same id has no effect.
 */
export const agentSource = `${base}${processes}${keeper}${files}`

/** The agent's folder. Processes have their folders below it. */
export const agentFolder = '/tmp/.sandkasten'
