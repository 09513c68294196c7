import { identities, locks } from '../../../shared/guest/processes.ts'

/**
 * The agent's first part: records, locks, and who belongs to what.
 *
 * The agent is a POSIX shell script that is copied to the host once and called for everything that SFTP cannot do. It needs `sh`,
 * `setsid`, `mkfifo`, `awk`, `dd`, `grep`, `base64`, and a `/proc`: what any Linux has. Nothing of it is a daemon: what outlives a call
 * is one supervisor for each program, and the clock of a sandbox with a lifetime.
 *
 *     ROOT/bin/agent-HASH.sh, runner-HASH
 *     ROOT/names/HASH                    the id of the sandbox with that name
 *     ROOT/sandboxes/ID/record           what it was made with: base64 of JSON, for the client alone
 *     ROOT/sandboxes/ID/state            status incarnation expiresAt lifetimeMs boot; changed under `lock`
 *     ROOT/sandboxes/ID/live-INC         is there while that incarnation runs: one look says whether a handle may act
 *     ROOT/sandboxes/ID/work             the working directory
 *     ROOT/sandboxes/ID/run              programs and shells of this incarnation
 *
 * Called as `sh agent.sh NONCE VERB ARGS…`: arguments are plain words, everything else comes as lines of base64 on stdin, so no login
 * shell can misread it. The answer begins after a line with the nonce: whatever start-up files print is before it. `@{` stands for the
 * shell’s `${`, which a template would take for its own.
 */
export const base = String.raw`
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
now_ms() {
  now=$(date +%s%3N)
  case $now in *[!0-9]*) now=$(date +%s)000 ;; esac
  echo "$now"
}
boot_id() { read -r boot </proc/sys/kernel/random/boot_id; echo "$boot"; }

${identities}
${locks}

# A sandbox: its folder, and its state as it is now.
at() {
  ID=$1
  SB=$ROOT/sandboxes/$1
  RUN=$SB/run
  case $1 in *[!a-z2-7]* | '') die 71 ;; esac
  [ -d "$SB" ] || die 71
}
load() {
  STATUS= INC= EXPIRES= LIFE= BOOT=
  for try in 1 2 3 4 5; do
    read -r STATUS INC EXPIRES LIFE BOOT 2>/dev/null <"$SB/state" && return 0
    [ -d "$SB" ] || die 71
    sleep 0.02
  done
  die 71
}
# Where there is no room for another file, over the one that is there: a sandbox must be able to stop.
save() {
  line="$STATUS $INC $EXPIRES $LIFE $BOOT"
  echo "$line" 2>/dev/null >"$SB/state.$$" && mv "$SB/state.$$" "$SB/state" && return
  rm -f "$SB/state.$$"
  printf '%-120s\n' "$line" 1<>"$SB/state"
}

# One that is over, or that a restart of the host has ended, is stopped by whoever looks first.
look() {
  load
  over=
  case $STATUS in
    running)
      [ "$EXPIRES" != - ] && [ "$(now_ms)" -ge "$EXPIRES" ] && over=1
      [ "$BOOT" != "$(boot_id)" ] && over=1
      [ -n "$over" ] || { bereft && over=1; }
      ;;
    creating) [ "$(now_ms)" -ge "$BOOT" ] && STATUS=failed ;;
  esac
  [ -z "$over" ] || { finish "$INC"; load; }
}
# May a handle that knows this incarnation act?
may() {
  [ -e "$SB/live-$1" ] && return 0
  look
  [ "$STATUS" = creating ] && [ "$INC" = "$1" ] && return 0
  [ "$STATUS" = stopped ] && die 72
  die 73
}

# Everything with a mark in its environment. What a mark says ends with a slash, so that no id is the beginning of another.
carriers() {
  if [ -e "$ROOT/grep-sees" ]; then
    grep -lF -- "$1" /proc/[0-9]*/environ 2>/dev/null
  else
    for file in /proc/[0-9]*/environ; do [ -r "$file" ] && has_mark "$1" "$file" && echo "$file"; done
  fi
}
marked() {
  carriers "$1" | while IFS=/ read -r _ _ pid _; do
    [ "$pid" = $$ ] || echo "$pid"
  done
}
# BusyBox’s grep sees nothing beyond the first NUL.
has_mark() { { tr '\0' '\n' <"$2" | grep -qF -- "$1"; } 2>/dev/null; }
# The sessions of programs. Each has the number of its first process, which nobody else gets while anything of the session is left.
sessions() { # folders of programs
  for folder; do
    pid= since=
    read -r pid since 2>/dev/null <"$folder/pid"
    [ -n "$since" ] || continue
    ! stat_of "$pid" || [ "$started" = "$since" ] || continue
    printf '%s ' "$pid"
  done
  echo
}
# Who belongs to programs, in one look at all processes: who is of their sessions, who carries their mark, and whoever those have started.
# A program may well have another environment than it was given (env -i), or have written its title over it.
family() { # mark, folders of programs
  mark=$1
  shift
  { sessions "$@"; carriers "$mark"; cat /proc/[0-9]*/stat 2>/dev/null; } | awk -v self=$$ '
    NR == 1 { for (i = 1; i <= NF; i++) session[$i] = 1; next }
    /^\/proc/ { split($0, part, "/"); ours[part[3]] = 1; next }
    {
      pid = $1
      if (!sub(/^.*\) /, "") || $1 == "Z" || pid == self) next
      all[++n] = pid
      parent[pid] = $2
      if (($3 in session) || ($4 in session)) ours[pid] = 1
    }
    END {
      delete ours[self]
      do {
        more = 0
        for (i = 1; i <= n; i++) if (!(all[i] in ours) && (parent[all[i]] in ours)) more = ours[all[i]] = 1
      } while (more)
      for (i = 1; i <= n; i++) if (all[i] in ours) print all[i]
    }'
}
signal() { # signal, then as family
  name=$1
  shift
  for pid in $(family "$@"); do kill -s "$name" "$pid" 2>/dev/null; done
}
# Until two rounds have found nothing: one in the middle of an exec has no environment. Held first and ended when the next look finds the same ones, so
# that nobody starts another while we look; one who does so all the time is ended all the same.
extinguish() { # as family
  quiet=0 round=0 still=
  while [ $quiet -lt 2 ] && [ $round -lt 200 ]; do
    found=$(family "$@")
    round=$((round + 1)) word=KILL
    if [ -z "$found" ]; then quiet=$((quiet + 1))
    else
      quiet=0
      [ "$found" = "$still" ] || [ $((round % 5)) -eq 0 ] || word=STOP
      for pid in $found; do kill -s $word "$pid" 2>/dev/null; done
    fi
    still=$found
    [ $quiet -ge 2 ] || [ $word = STOP ] || sleep 0.02
  done
}
halt() {
  quench
  extinguish "SANDKASTEN_PROCESS=$ID/" "$RUN"/p-* "$RUN"/s-*
  # The supervisors note how their programs ended, and whoever reads is told.
  waited=0
  while [ $waited -lt 50 ] && [ -n "$(marked "SANDKASTEN_SUPERVISOR=$ID/")" ]; do sleep 0.02; waited=$((waited + 1)); done
  waited=0
  for reader in "$RUN"/*/r/*; do
    read -r _ _ since 2>/dev/null <"$reader" || continue
    pid=@{reader##*/}
    while is_there "$pid" "$since" && [ $waited -lt 50 ]; do sleep 0.02; waited=$((waited + 1)); done
    is_there "$pid" "$since" && kill "$pid" 2>/dev/null
  done
  extinguish "SANDKASTEN_SANDBOX=$ID/"
  # One that was only being started when we looked first.
  quench
}
finish() {
  lock "$SB/lock"
  load
  if [ "$STATUS" != stopped ]; then
    [ "$INC" = "$1" ] || { unlock "$SB/lock"; die 73; }
    rm -f "$SB"/live-*
    STATUS=stopped
    save
  fi
  halt
  rm -rf "$RUN"
  unlock "$SB/lock"
}
enliven() { # RUNNER
  mkdir -p "$SB/work" "$RUN"
  rm -f "$SB/crashed"
  kindle "$1"
  : >"$SB/live-$INC"
  [ "$EXPIRES" = - ] || detach expire "$ID" "$INC"
}
# A copy of the agent that has left this session. Twice setsid: the first makes the second a leader, which therefore forks. Not with an
# ampersand: a shell makes whatever it puts in the background deaf to SIGINT.
detach() {
  SANDKASTEN_UMASK="@{SANDKASTEN_UMASK:-$MASK}" SANDKASTEN_SANDBOX="$ID/" setsid setsid sh "$ME" - "$@" </dev/null >/dev/null 2>&1
}

remove() {
  chmod -R u+rwx "$1" 2>/dev/null
  for try in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf "$1" 2>/dev/null
    [ -e "$1" ] || return 0
    sleep 0.05
  done
  return 1
}
`
