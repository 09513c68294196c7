import { script } from './script.ts'

/** Process identity for POSIX shell scripts, read from `/proc`. */

/**
 * Parent and start time of a process. Pids are reused, so a process to be signalled later is recorded with its start
 * time.
 */
export const identities = script`
stat_of() {
  parent= started= kind=
  read -r line <"/proc/$1/stat" || return 1
  comm=@{line#*\(}; comm=@{comm%)*}
  set -- @{line##*) }
  kind=$1 parent=$2; shift 19; started=$1
} 2>/dev/null
identity() { stat_of "$1" && echo "$1 $started"; }
is_there() { [ -n "$1" ] && [ -n "$2" ] && stat_of "$1" && [ "$started" = "$2" ] && [ "$kind" != Z ]; }
`

/** A lock is a folder. A lock whose holder has exited is taken over. `die 71` if its parent folder is gone. */
export const locks = script`
lock() {
  tries=0
  until mkdir "$1" 2>/dev/null; do
    [ -d "@{1%/*}" ] || die 71
    holder= since=
    read -r holder since 2>/dev/null <"$1/holder"
    if [ -n "$holder" ]; then
      is_there "$holder" "$since" || { mv "$1" "$1.$$" 2>/dev/null && rm -rf "$1.$$"; }
    else
      tries=$((tries + 1))
      [ $tries -gt 250 ] && { tries=0; mv "$1" "$1.$$" 2>/dev/null && rm -rf "$1.$$"; }
    fi
    sleep 0.02
  done
  identity $$ >"$1/holder"
}
unlock() { rm -rf "$1"; }
`

/**
 * Finds the processes that a shell's command has started: the process and its ancestors up to the shell (`$bash`) did
 * not exist before.
 * `old PID` tells whether a process existed before.
 */
export const families = script`
children() { kids=; read -r kids 2>/dev/null <"/proc/$1/task/$1/children"; echo "$kids"; }
subtree() {
  for kid in $(children "$1"); do (subtree "$kid" "$2"); done
  kill -s "$2" "$1" 2>/dev/null
}
younger() {
  up=$1
  [ "$up" != "$bash" ] || return 1
  while [ "$up" -gt 1 ]; do
    ! old "$up" || { [ "$up" = "$bash" ]; return; }
    stat_of "$up" || return 0
    [ "$parent" != "$bash" ] || return 0
    up=$parent
  done
  return 0
}
`

/**
 * `hunt SIGNAL MARK` signals everything that carries the mark; SIGKILL repeats until nothing is left. `_sk_any` is
 * set if it found a process.
 */
export const hunt = script`
hunt() {
  _sk_any=
  while :; do
    _sk_found=
    for _sk_f in $(grep -lzsFx "SANDKASTEN_PROCESS=$2" /proc/[0-9]*/environ); do
      _sk_f=@{_sk_f#/proc/}
      kill -s "$1" "@{_sk_f%/environ}" 2>/dev/null && _sk_found=1 _sk_any=1
    done
    [ "$1" = KILL ] && [ -n "$_sk_found" ] || break
    sleep 0.01
  done
}
`
