import { locks } from '../../../shared/guest/processes.ts'
import { script } from '../../../shared/guest/script.ts'

/**
 * The agent's own part: records, locks, and which start of a sandbox a call is for. It is copied to the host once, and does
 * everything that SFTP cannot do. The agent is not a daemon: only the keeper of each program and the clock of a sandbox with a
 * lifetime outlive a call.
 *
 *     ROOT/bin/agent-HASH.sh, runner-HASH
 *     ROOT/names/HASH                    the id of the sandbox with that name
 *     ROOT/sandboxes/ID/record           the create options: base64 of JSON, read only by the client
 *     ROOT/sandboxes/ID/state            status incarnation expiresAt lifetimeMs boot; changed under `lock`
 *     ROOT/sandboxes/ID/live-INC         exists while that incarnation runs, so one check validates a handle
 *     ROOT/sandboxes/ID/work             the working directory
 *     ROOT/sandboxes/ID/run              programs of this incarnation
 */
export const sandboxes = script`
# A reader ends with its client, whose end is the end of our input.
LIVE=1
now_ms() {
  now=$(date +%s%3N)
  case $now in *[!0-9]*) now=$(date +%s)000 ;; esac
  echo "$now"
}
${locks}

# Sets the folder of a sandbox, and its current state.
at() { # ID [INC]
  ID=$1 START=@{2-}
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

halt() {
  quench
  extinguish "SANDKASTEN_PROCESS=$ID/" "$RUN"/p-*
  # Supervisors record how their programs ended, and readers get the exit event.
  waited=0
  while [ $waited -lt 50 ] && [ -n "$(marked "SANDKASTEN_SUPERVISOR=$ID/")" ]; do sleep 0.02; waited=$((waited + 1)); done
  waited=0
  for reader in "$RUN"/*/r/*; do
    read -r _ _ pid since _ 2>/dev/null <"$reader" || continue
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
