import { identities, locks } from '../../../shared/guest/processes.ts'

/**
 * The agent's first part: records, locks, and process ownership.
 *
 * The agent is a POSIX shell script that is copied to the host once. It does everything that SFTP cannot do. It needs `sh`,
 * `setsid`, `mkfifo`, `awk`, `dd`, `grep`, `base64` and `/proc`, which every Linux has. The agent is not a daemon. Only
 * the supervisor of each program and the clock of a sandbox with a lifetime outlive a call.
 *
 *     ROOT/bin/agent-HASH.sh, runner-HASH
 *     ROOT/names/HASH                    the id of the sandbox with that name
 *     ROOT/sandboxes/ID/record           the create options: base64 of JSON, read only by the client
 *     ROOT/sandboxes/ID/state            status incarnation expiresAt lifetimeMs boot; changed under `lock`
 *     ROOT/sandboxes/ID/live-INC         exists while that incarnation runs, so one check validates a handle
 *     ROOT/sandboxes/ID/work             the working directory
 *     ROOT/sandboxes/ID/run              programs and shells of this incarnation
 *
 * Called as `sh agent.sh NONCE VERB ARGS…`. Arguments are plain words. All other data is sent as lines of base64 on
 * stdin, so that no login shell can misread it. The response begins after a line with the nonce, because start-up files
 * may print text before it. `@{` stands for the shell’s `${`, which a template literal would interpolate.
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

# Sets the folder of a sandbox, and its current state.
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
# On a full disk, overwrites the existing file: stop must always work.
save() {
  line="$STATUS $INC $EXPIRES $LIFE $BOOT"
  echo "$line" 2>/dev/null >"$SB/state.$$" && mv "$SB/state.$$" "$SB/state" && return
  rm -f "$SB/state.$$"
  printf '%-120s\n' "$line" 1<>"$SB/state"
}

# The first caller to notice stops a sandbox that has expired, or that a restart of the host has ended.
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
# Checks that a handle of this incarnation may act.
may() {
  [ -e "$SB/live-$1" ] && return 0
  look
  [ "$STATUS" = creating ] && [ "$INC" = "$1" ] && return 0
  [ "$STATUS" = stopped ] && die 72
  die 73
}

# Lists processes with a mark in their environment. A mark ends with a slash, so that no id is a prefix of another.
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
# BusyBox’s grep stops at the first NUL.
has_mark() { { tr '\0' '\n' <"$2" | grep -qF -- "$1"; } 2>/dev/null; }
# The sessions of programs. A session id is not reused while a process of the session exists.
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
# The processes of programs: members of their sessions, carriers of their mark, and the descendants of both.
# A program may change its environment (env -i) or overwrite it with its title.
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
# Repeats until two rounds find nothing, because a process in the middle of an exec has no environment. Stops the processes
# first, so that they cannot fork, and kills them when two rounds find the same ones. Every fifth round kills regardless.
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
  # Supervisors record how their programs ended, and readers get the exit event.
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
  # Kills a runner that was still starting during the first call.
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
# Starts a copy of the agent outside this session. The second setsid forks because the first made it a leader.
# An ampersand would not do: a shell ignores SIGINT in background processes.
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
