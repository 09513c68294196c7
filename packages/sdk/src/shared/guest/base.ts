import { identities } from './processes.ts'
import { script } from './script.ts'

/**
 * The beginning of every agent: input, output and detached copies of itself.
 *
 * An agent is called as `sh agent.sh NONCE VERB ARGS…`. Arguments are plain words. All other data is lines of base64, so
 * that no login shell can misread it and no process list shows it. They come on stdin or, where a transport has none, in
 * the variables SANDKASTEN_LINE_1, …; a missing number ends a line, because Linux limits the length of one variable.
 * The response begins after a line with the nonce, because start-up files may print text before it.
 */
export const base = script`
ROOT=$(cd "$(dirname "$0")/.." && pwd -P) || exit 70
ME=$0
NONCE=$1
VERB=$2
shift 2
MASK=$(umask)
umask 077
NL='
'

say() { printf '%s\n' "$*"; }
die() { exit "$1"; }
unpack() { printf '%s' "$1" | base64 -d; }
uptime_ms() { read -r up _ </proc/uptime; up=@{up%.*}@{up#*.}; echo $((@{up#0} * 10)); }
boot_id() { read -r boot </proc/sys/kernel/random/boot_id; echo "$boot"; }
line_at=0
line() { # sets LINE
  LINE=
  [ -n "@{SANDKASTEN_LINES-}" ] || { read -r LINE; return; }
  while line_at=$((line_at + 1)); eval "part=\@{SANDKASTEN_LINE_$line_at-}"; [ -n "$part" ]; do
    LINE=$LINE$part
    unset "SANDKASTEN_LINE_$line_at"
  done
}

${identities}

# Starts a copy of the agent outside this session. The second setsid forks because the first made it a leader.
# An ampersand would not do: a shell ignores SIGINT in background processes.
detach() {
  SANDKASTEN_UMASK="@{SANDKASTEN_UMASK:-$MASK}" SANDKASTEN_SANDBOX="$ID/" setsid setsid sh "$ME" - "$@" \
    </dev/null >/dev/null 2>&1 8<&- 9<&-
}
# Records once what the system's programs can do. Prints the name of a missing one.
probe() {
  for tool in setsid mkfifo awk dd grep base64 tail wc; do
    command -v $tool >/dev/null || { say "missing $tool"; return 1; }
  done
  [ -r /proc/$$/environ ] || { say "missing /proc"; return 1; }
  [ -e "$ROOT/awk-tells" ] || { [ "$(awk 'BEGIN { print system("kill -9 $$") }')" -gt 256 ] && : >"$ROOT/awk-tells"; }
  ! tail --pid=999999999 -n 0 -f /dev/null 2>/dev/null || : >"$ROOT/tail-waits"
  env -i A=1 PATH="$PATH" SANDKASTEN_PROBE=yes sh -c 'grep -qF SANDKASTEN_PROBE=yes /proc/$$/environ' && : >"$ROOT/grep-sees"
  return 0
}
`
