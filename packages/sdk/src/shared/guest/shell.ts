import { bashPrologue } from './bash-prologue.ts'
import { family } from './family.ts'
import { families, identities, locks } from './processes.ts'
import { script } from './script.ts'

/**
 * A shell that keeps its state, in a sandbox that can only run programs. The shell is independent of these programs:
 *
 *     open   ──► keeper ── bash ◄── fifo `in`: one line for each command
 *     exec   one program per command: sends the line, relays the output, waits on the command's fifo `st`
 *     close  ends everything that carries the shell's mark
 *
 * A signal to `exec` cancels the command. Output uses the vendor's own channel. Any program in the sandbox finds a
 * shell by its name.
 * Each command has its own output pipe, so later output of a background job never mixes with another command's; it is
 * read and discarded.
 * A mark ends the command's output. After the pipe's name is removed, the relay drains it and exits.
 *
 * Requires bash, GNU coreutils and grep.
 * A shell's folder holds: in, keeper (identity), pid (bash), ended (its exit code), closed, cwd, last (exit code), busy
 * (lock). Each running or waiting command has a folder in it: script, o and st (fifos), before (earlier processes),
 * code, cwd.
 */
const base = script`
umask 077
die() { exit "$1"; }
${identities}
${locks}
root=$1 key=$2 S=$1/$2
alive() { [ ! -e "$S/ended" ] && [ ! -e "$S/closed" ] && read -r pid since 2>/dev/null <"$S/keeper" && is_there "$pid" "$since"; }
encoded() { base64 <"$1" | tr -d '\n'; }
`

/** ROOT KEY: opens a shell with the current folder and variables unless it is open. Prints „ok cwd64“. */
export const open = script`
mask=$(umask)
${base}
mkdir -p "$root" && [ -O "$root" ] || die 70
lock "$S.lock"
if ! alive; then
  # A bash without its keeper. Its pid may have been reused, so check the mark.
  if [ ! -e "$S/ended" ] && read -r bash _ 2>/dev/null <"$S/pid"; then
    ! grep -qzsFx "SANDKASTEN_PROCESS=$key" "/proc/$bash/environ" || kill -s KILL "$bash"
  fi
  rm -rf "$S"
  mkdir "$S" && mkfifo "$S/in" || die 70
  pwd >"$S/cwd"
  echo 0 >"$S/last"
  keep() {
    set +m
    exec 8<>"$S/in"
    identity "$BASHPID" >"$S/keeper"
    printf '%s' '${bashPrologue.replaceAll("'", `'\\''`)}' >&8
    (
      identity "$BASHPID" >"$S/pid.new"
      mv "$S/pid.new" "$S/pid"
      export SANDKASTEN_PROCESS=$key
      umask "$mask"
      unset OLDPWD
      exec setsid bash --noprofile --norc -s <"$S/in" 8>&-
    )
    echo $? >"$S/ended.new"
    mv "$S/ended.new" "$S/ended"
    for st in "$S"/*/st; do [ ! -p "$st" ] || echo ended 1<>"$st"; done
  }
  # Job control on: without it a shell makes background processes ignore SIGINT.
  set -m
  keep </dev/null >/dev/null 2>&1 &
  set +m
  until [ -e "$S/pid" ]; do kill -0 $! 2>/dev/null || die 70; sleep 0.01; done
fi
unlock "$S.lock"
echo "ok $(encoded "$S/cwd")"
`

/**
 * ROOT KEY COMMAND LIMIT|- MARK; the command is in the environment as base64, or plain on stdin. Prints its output,
 * the mark, and bytes to ignore.
 * On stderr: „over code timedOut ms cwd64“, „ended“ if the shell has ended, „closed“ if it does not exist.
 */
export const exec = script`
${base}
${families}
P=$S/exec$3 limit=$4 mark=$5
cancelled=
trap 'cancelled=1; echo cancel >&9' TERM
exec 9>/dev/null
[ -d "$S" ] || { echo closed >&2; exit; }
# If a request arrives twice, only one runs the command.
mkdir "$P" 2>/dev/null || exit
if [ -n "@{SANDKASTEN_COMMAND+x}" ]; then printf %s "$SANDKASTEN_COMMAND" | base64 -d >"$P/script"; else cat >"$P/script"; fi
unset SANDKASTEN_COMMAND

uptime_ms() { read -r up _ </proc/uptime; up=$((10#@{up%.*}@{up#*.}0)); }
old() { case $before in *" $1 "*) return 0 ;; esac; return 1; }
# One read and one write per chunk, so that none is lost. A closed reader does not block the command.
relay() {
  trap '' TERM
  while [ -p "$P/o" ]; do dd bs=49152 count=1 2>/dev/null || exec >/dev/null; done
  dd bs=1048576 count=1 iflag=nonblock 2>/dev/null
}
# The next word on st. A trap may interrupt the read, and a shell that was killed with its keeper sends nothing.
hear() { # seconds
  word= value=
  read -r -t "$1" word value <&9
  [ "$word" != code ] || { code=$value; read -r -t "$1" word <&9; }
  [ "$word" != cancel ] || word=
  [ -n "$word" ] || alive || word=ended
}
# The processes that the command has started.
strays() {
  found=
  for file in $(grep -lzsFx "SANDKASTEN_PROCESS=$key" /proc/[0-9]*/environ); do
    pid=@{file#/proc/} pid=@{pid%/environ}
    younger "$pid" && kill -s KILL "$pid" 2>/dev/null && found=1
  done
}
# Ends the command's processes, and the shell only if the command does not stop. Jobs of earlier commands stay.
interrupt() {
  round=0
  while [ -z "$word" ] && [ $round -lt 60 ]; do
    # SIGINT first, as from a keyboard: the shell prints no report for it.
    sig=INT
    [ $round -lt 3 ] || { sig=KILL; strays; }
    for child in $(children "$bash"); do old "$child" || subtree "$child" $sig; done
    kill -s USR1 "$bash" 2>/dev/null
    hear 0.03
    round=$((round + 1))
  done
  if [ -z "$word" ]; then
    kill -s KILL "$bash" 2>/dev/null
    until [ -n "$word" ]; do hear 1; done
  fi
  quiet=0 round=0
  while [ $quiet -lt 2 ] && [ $round -lt 50 ]; do
    strays
    if [ -n "$found" ]; then quiet=0; else quiet=$((quiet + 1)); fi
    round=$((round + 1))
    [ $quiet -ge 2 ] || sleep 0.02
  done
}
finish() {
  rm -rf "$P"
  unlock "$S/busy"
  echo "$1" >&2
}

lock "$S/busy"
[ ! -e "$S/closed" ] || { finish closed; exit; }
alive || { finish ended; exit; }
read -r bash _ <"$S/pid"
# The exec of an earlier command was killed: the shell is still waiting for that command.
for left in "$S"/*/before; do
  [ -e "$left" ] || continue
  exec 9<>"@{left%/*}/st"
  before=$(cat "$left")
  hear 0.1
  [ -n "$word" ] || interrupt
  rm -rf "@{left%/*}"
done
mkfifo "$P/o" "$P/st"
# Opened twice for reading: the relay's non-blocking mode must not leak to later readers.
exec 9<>"$P/st" 3<>"$P/o" 4<"$P/o" 5>"$P/o" 6<"$P/o" 3>&-
before=" $(cd /proc && echo [0-9]*) "
printf %s "$before" >"$P/before"
relay <&6 4<&- 5>&- 6<&- 9>&- &
relay=$!
exec 6<&-
late=0 word=
uptime_ms
begun=$up
if [ -n "$cancelled" ]; then
  word=skipped code=130
else
  read -r code <"$S/last"
  again=
  [ "$code" = 0 ] || again="__sandkasten_status $code || "
  printf '%s\\builtin source %s </dev/null >%s 2>&1\n{ \\builtin printf "code %%s\\n" "$?"; \\builtin pwd >|%s; \\builtin printf "done\\n"; } >|%s\n' \
    "$again" "$P/script" "$P/o" "$P/cwd" "$P/st" 1<>"$S/in"
fi
while [ -z "$word" ]; do
  wait=1000
  if [ "$limit" != - ]; then
    uptime_ms
    wait=$((begun + limit - up))
    [ $wait -gt 0 ] || { late=1; interrupt; break; }
    [ $wait -le 1000 ] || wait=1000
  fi
  hear "$((wait / 1000)).$(printf %03d $((wait % 1000)))"
  [ -z "$cancelled" ] || [ -n "$word" ] || interrupt
done
uptime_ms
took=$((up - begun))
rm -f "$P/before"
if [ "$word" = done ]; then
  # On a full disk, the last known folder stays. Overwriting needs no space.
  [ ! -s "$P/cwd" ] || mv -f "$P/cwd" "$S/cwd"
  printf '%-3s\n' "$code" 1<>"$S/last"
elif [ "$word" = ended ]; then
  code=137
  read -r code 2>/dev/null <"$S/ended"
fi
printf %s "$mark" >&5
rm -f "$P/o"
printf %s "$mark" >&5
exec 5>&- 9>/dev/null
while kill -0 $relay 2>/dev/null; do wait $relay; done
finish "over $code $late $took $(encoded "$S/cwd")"
cat <&4 >/dev/null 2>&1 &
`

/** ROOT KEY: ends the shell and its programs. Prints „ok 1“, or „ok 0“ if it does not exist. */
export const close = script`
${base}
${family}
carriers() { grep -lFs -- "$1" /proc/[0-9]*/environ 2>/dev/null; }
[ -d "$root" ] || { echo ok 0; exit; }
lock "$S.lock"
if mkdir "$S/closed" 2>/dev/null; then
  extinguish "SANDKASTEN_PROCESS=$key" "$S"
  # The keeper reports the end to pending commands.
  while [ ! -e "$S/ended" ] && read -r pid since 2>/dev/null <"$S/keeper" && is_there "$pid" "$since"; do sleep 0.01; done
  rm -rf "$S"
  echo ok 1
else
  echo ok 0
fi
unlock "$S.lock"
`
