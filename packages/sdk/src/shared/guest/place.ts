import { base } from './base.ts'
import { family } from './family.ts'
import { keeper } from './keeper.ts'
import { script } from './script.ts'
import { verbs } from './verbs.ts'

/**
 * The agent in a vendor's sandbox. The vendor keeps sandboxes, names and lifetimes, so only the start of the sandbox is
 * known here: the start time of its first process and the boot id of its kernel. Both differ after every start.
 *
 *     /tmp/.sandkasten/bin/NAME      the agent
 *     /tmp/.sandkasten/run/ID/START  its programs
 */
const place = script`
at() { # ID START, or - for the current one
  case $1 in *[!A-Za-z0-9_.-]* | '' | .*) die 71 ;; esac
  stat_of 1
  START=@{started:-0}-$(boot_id)
  [ "$2" = - ] || [ "$2" = "$START" ] || die 73
  ID=$1 RUN=$ROOT/run/$1/$START
  [ -d "$RUN" ] && return
  probe && command -v timeout >/dev/null || die 85
  mkdir -p "$RUN" || die 82
  # Programs of another start have ended.
  for old in "$ROOT"/run/*/*; do [ "@{old##*/}" = "$START" ] || rm -rf "$old"; done
}
may() { :; }
`

const dispatch = script`
[ "$NONCE" = - ] || say "$NONCE"
case $VERB in
  supervise | spawn | follow | reader | status | processes | kill | cancel | stdin | feed | poured | eof | resize) "verb_$VERB" "$@" ;;
  *) die 64 ;;
esac
`

/** Comments and indentation stay here: the text travels in the environment of a call. */
export const agentScript = [base, place, family, keeper, verbs, dispatch]
  .join('\n')
  .split('\n')
  .map((line) => line.trim())
  .filter((line) => line !== '' && !line.startsWith('#'))
  .join('\n')

/** Contains a hash, so that two versions of this library do not share an agent. */
export const agentName = `agent-${hashOf(agentScript)}.sh`

/** The exit code of a call that does not find the agent. */
export const agentMissing = 98

export const guestFolder = '/tmp/.sandkasten'

/**
 * `sh -c LINE NAME NONCE VERB ARGS…` runs the agent. The first call of a sandbox passes the agent's text in
 * SANDKASTEN_AGENT; a call that does not find it exits with 98. The folder must belong to this account: another could have
 * created it as a trap. A program gets the sandbox's own PATH; the agent also looks in the usual folders.
 */
const begin = `f=${guestFolder}/bin/$0
[ -O ${guestFolder} ] && [ -f "$f" ] || {
[ -n "\${SANDKASTEN_AGENT+x}" ] || exit 98
m=$(umask); umask 077
mkdir -p ${guestFolder}/bin && [ -O ${guestFolder} ] && printf %s "$SANDKASTEN_AGENT" >"$f.$$" && mv -f "$f.$$" "$f" || exit 99
umask "$m"
}
unset SANDKASTEN_AGENT m
SANDKASTEN_PATH=\${PATH-} PATH=\${PATH-}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export SANDKASTEN_PATH PATH
`

/** For a transport that returns stdout alone, and the exit code. */
export const plainLine = `${begin}exec /bin/sh "$f" "$@"`

/** For a transport that returns text: the response ends with a line „nonce code“, so a cut-off one is detected. */
export const framedLine = `(
${begin}exec /bin/sh "$f" "$@"
) 2>/dev/null
printf '\\n%s %s\\n' "$1" "$?"`

/** FNV-1a. It only tells versions apart; the file belongs to the account that reads it. */
function hashOf(text: string): string {
  let hash = 0xcbf29ce484222325n
  for (const byte of new TextEncoder().encode(text))
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n)
  return hash.toString(36)
}
