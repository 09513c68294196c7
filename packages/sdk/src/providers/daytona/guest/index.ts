import { base } from './base.ts'
import { files } from './files.ts'
import { keeper } from './keeper.ts'
import { processes } from './processes.ts'

/**
 * A small program that works for us inside the sandbox, called once for each thing that is asked. The vendor's own calls put both streams of
 * a command together, know no signals, keep no numbers, and tell two errors of files apart; so a command line of theirs starts this one.
 *
 *     executeCommand ──► agent ──► socket ──► keeper ──► program      what comes back is text: lines, base64, and a dot at the end
 *
 * In Perl, because that is where nearly every image has it: Debian and Ubuntu, and all that stands on them, cannot do without `perl-base`.
 * Rejected: the vendor's sessions (text only, no end to their logs, nothing but the whole session can be killed), and a shell script (it can
 * neither wait for two pipes nor read what is there without losing bytes). One that is called twice with the same id does nothing twice.
 */
export const agentSource = `${base}${processes}${keeper}${files}`

/** Where it is kept; below this are the processes, too. */
export const agentFolder = '/tmp/.sandkasten'
