import { bashPrologue } from '../bash-prologue.ts'
import { families, hunt, identities, locks } from './processes.ts'
import { script } from './script.ts'

/**
 * A shell that keeps its state, in a sandbox where all we can do is to run programs. The shell belongs to none of them:
 *
 *     open   ──► keeper ── bash ◄── fifo `in`: one line for each command
 *     exec   a program for each command: gives the line, relays the output, waits on the command's fifo `st`, ends with it
 *     close  a program that ends what carries the shell's mark
 *
 * So a command is cancelled by a signal to its `exec`, has the vendor's own way for its output, and a shell is found by its name by whoever
 * is in the sandbox. Each command has an output pipe of its own, so what a job in the background prints later is never part of another
 * command's; it is read on and thrown away. A mark at the end of the output says where that is: what stands before it is the command's.
 * When the pipe has lost its name, the relay takes what is there, and waits for nothing more.
 *
 * It is bash throughout, and needs GNU coreutils and grep.
 * Folder of a shell: in, keeper (who), pid (bash), ended (its exit code), closed, cwd, last (exit code), busy (lock), and one for each
 * command that runs or waits: script, o and st (fifos), before (who was there), code, cwd.
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

/** ROOT KEY: a shell here and with these variables, unless there is one. Says „ok cwd64“. */
export const open = script`
mask=$(umask)
${base}
mkdir -p "$root" && [ -O "$root" ] || die 70
lock "$S.lock"
if ! alive; then
  # A bash that has lost its keeper. Its number may be somebody else's by now; the mark is not.
  if [ ! -e "$S/ended" ] && read -r bash 2>/dev/null <"$S/pid"; then
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
      echo "$BASHPID" >"$S/pid.new"
      mv "$S/pid.new" "$S/pid"
      export SANDKASTEN_PROCESS=$key
      umask "$mask"
      unset OLDPWD
      exec bash --noprofile --norc -s <"$S/in" 8>&-
    )
    echo $? >"$S/ended.new"
    mv "$S/ended.new" "$S/ended"
    for st in "$S"/*/st; do [ ! -p "$st" ] || echo ended 1<>"$st"; done
  }
  # With job control on: otherwise a shell makes whatever it puts in the background deaf to SIGINT.
  set -m
  keep </dev/null >/dev/null 2>&1 &
  set +m
  until [ -e "$S/pid" ]; do kill -0 $! 2>/dev/null || die 70; sleep 0.01; done
fi
unlock "$S.lock"
echo "ok $(encoded "$S/cwd")"
`

/**
 * ROOT KEY COMMAND LIMIT|- MARK; the command as base64 in the environment, or as it is on stdin. Prints its output, the mark, and what is to
 * be passed over; on stderr „over code timedOut ms cwd64“, „ended“ when the shell has, „closed“ when there is none.
 */
export const exec = script`
${base}
${families}
P=$S/$3 limit=$4 mark=$5
cancelled=
trap 'cancelled=1; echo cancel >&9' TERM
exec 9>/dev/null
[ -d "$S" ] || { echo closed >&2; exit; }
# Of a request that is on its way twice, one is the command.
mkdir "$P" 2>/dev/null || exit
if [ -n "@{SANDKASTEN_COMMAND+x}" ]; then printf %s "$SANDKASTEN_COMMAND" | base64 -d >"$P/script"; else cat >"$P/script"; fi
unset SANDKASTEN_COMMAND

uptime_ms() { read -r up _ </proc/uptime; up=$((10#@{up%.*}@{up#*.}0)); }
old() { case $before in *" $1 "*) return 0 ;; esac; return 1; }
# Reads and writes once for each piece, so that none is lost. Who does not listen any more holds up nobody.
relay() {
  trap '' TERM
  while [ -p "$P/o" ]; do dd bs=49152 count=1 2>/dev/null || exec >/dev/null; done
  dd bs=1048576 count=1 iflag=nonblock 2>/dev/null
}
# The next word on st. A trap may have been run meanwhile, and a shell that was killed with its keeper says nothing.
hear() { # seconds
  word=
  read -r -t "$1" word <&9
  [ "$word" != cancel ] || word=
  [ -n "$word" ] || alive || word=ended
}
# What the command has started, wherever it is now.
strays() {
  found=
  for file in $(grep -lzsFx "SANDKASTEN_PROCESS=$key" /proc/[0-9]*/environ); do
    pid=@{file#/proc/} pid=@{pid%/environ}
    younger "$pid" && kill -s KILL "$pid" 2>/dev/null && found=1
  done
}
# Ends what the command runs, not the shell unless it will not let go, and nothing of earlier commands.
interrupt() {
  round=0
  while [ -z "$word" ] && [ $round -lt 60 ]; do
    # SIGINT first, as from a keyboard: of that the shell does not print a report.
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
read -r bash <"$S/pid"
# A command whose exec was killed: nobody waits for it, and the shell does.
for left in "$S"/*/before; do
  [ -e "$left" ] || continue
  exec 9<>"@{left%/*}/st"
  before=$(cat "$left")
  hear 0.1
  [ -n "$word" ] || interrupt
  rm -rf "@{left%/*}"
done
mkfifo "$P/o" "$P/st"
# Opened twice for reading: that the relay is not to wait any more must not be told to whoever reads after it.
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
  printf '%s\\builtin source %s </dev/null >%s 2>&1; \\builtin printf "%%s\\n" "$?" >|%s; \\builtin pwd >|%s; \\builtin printf "done\\n" >|%s\n' \
    "$again" "$P/script" "$P/o" "$P/code" "$P/cwd" "$P/st" 1<>"$S/in"
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
  read -r code <"$P/code"
  mv -f "$P/cwd" "$S/cwd"
  echo "$code" >"$S/last"
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

/** ROOT KEY: ends the shell and what runs in it. Says „ok 1“, or „ok 0“ when there is none. */
export const close = script`
${base}
${hunt}
[ -d "$root" ] || { echo ok 0; exit; }
lock "$S.lock"
if mkdir "$S/closed" 2>/dev/null; then
  hunt KILL "$key"
  # Its keeper tells whoever waits for a command that this was the end.
  while [ ! -e "$S/ended" ] && read -r pid since 2>/dev/null <"$S/keeper" && is_there "$pid" "$since"; do sleep 0.01; done
  rm -rf "$S"
  echo ok 1
else
  echo ok 0
fi
unlock "$S.lock"
`
