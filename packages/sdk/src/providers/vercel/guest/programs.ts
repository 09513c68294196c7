import { hunt } from '../../../shared/guest/processes.ts'
import { script } from '../../../shared/guest/script.ts'

/**
 * Programs in a sandbox whose vendor API runs a command and returns text. The API has no bytes, no stdin, no signals to a
 * process tree, no distinction between a signal and an exit code, and no list of processes.
 *
 *     vendor's command: this script
 *        ├── relay: fifo o ──► lines „7 o BASE64“ on the script's stdout, numbered by a token that the relays exchange
 *        ├── relay: fifo e ──► „8 e BASE64“
 *        ├── clock, if there is a time limit
 *        └── awk ── the program                awk, because it tells a signal from an exit code, which a shell does not
 *
 * So the vendor's log of the command holds the numbered output and can be read several times. A slow reader slows the
 * program down through all stages. A program has ended when its own process has, even if others hold its pipes. The script
 * then writes a nonce into the pipes; all bytes before it are the program's output.
 *
 * It needs sh, awk, dd, base64, mkfifo, sleep, rm, and GNU grep. The vendor's own SDK needs more.
 * Folder of a program: argv, cmd (the vendor's id for this script), exit (code signal timedOut ms), i o e t (fifos), holder, timedout, end.
 */

/** ROOT ID PIECE SECONDS|- STDIN NONCE NONCE64 ONCE CWD LINE KEPT CMD ARGS… */
export const run = script`
_sk_root=$1 _sk_id=$2 _sk_piece=$3 _sk_limit=$4 _sk_stdin=$5 _sk_nonce=$6 _sk_nonce64=$7 _sk_once=$8 _sk_cwd=$9
shift 9
_sk_line=$1 _sk_kept=$2
shift 2
_sk_given=@{PATH-}
PATH=$_sk_given:/usr/local/bin:/usr/bin:/bin
_sk_dir=$_sk_root/p/$_sk_id
[ -d "$_sk_root/p" ] || { mkdir -p "$_sk_root/p" && chmod 700 "$_sk_root"; }
mkdir "$_sk_dir" 2>/dev/null || { echo '! taken'; exit 0; }
fail() { rm -rf "$_sk_dir"; echo "! $1"; exit 0; }
cd -- "$_sk_cwd" 2>/dev/null || { if [ -d "$_sk_cwd" ]; then fail permission_denied; else fail cwd_not_found; fi; }
_sk_cmd= _sk_seen=
case $1 in
*/*)
  [ -e "$1" ] || fail command_not_found
  if [ -d "$1" ] || [ ! -x "$1" ]; then fail permission_denied; fi
  _sk_cmd=$1
  ;;
*)
  set -f
  IFS=:
  for _sk_d in $_sk_given; do
    [ -f "@{_sk_d:-.}/$1" ] || continue
    _sk_seen=1
    if [ -x "@{_sk_d:-.}/$1" ]; then _sk_cmd=@{_sk_d:-.}/$1; break; fi
  done
  unset IFS
  set +f
  [ -n "$_sk_cmd" ] || { if [ -n "$_sk_seen" ]; then fail permission_denied; else fail command_not_found; fi; }
  ;;
esac
printf '%s\0' "$@" >"$_sk_dir/argv"
shift

${hunt}
emit() {
  read -r _sk_seq <&8
  _sk_seq=$((_sk_seq + 1))
  printf '%s %s %s\n' "$_sk_seq" "$1" "$2"
  echo "$_sk_seq" >&8
}
relay() {
  while :; do
    _sk_data=$(dd bs="$_sk_piece" count=1 <&3 2>/dev/null | base64 -w0)
    [ -n "$_sk_data" ] || break
    [ "$_sk_data" != "$_sk_nonce64" ] || break
    if [ -e "$_sk_dir/end" ]; then rest "$1"; break; fi
    emit "$1" "$_sk_data"
  done
}
rest() {
  _sk_tail=$_sk_dir/tail.$1
  printf %s "$_sk_data" | base64 -d >"$_sk_tail"
  while ! grep -qaF "$_sk_nonce" "$_sk_tail"; do dd bs=65536 count=1 <&3 >>"$_sk_tail" 2>/dev/null; done
  _sk_at=$(LC_ALL=C grep -aboF "$_sk_nonce" "$_sk_tail")
  _sk_at=@{_sk_at%%:*}
  _sk_done=0
  while [ "$_sk_done" -lt "$_sk_at" ]; do
    _sk_n=$((_sk_at - _sk_done))
    [ "$_sk_n" -le "$_sk_piece" ] || _sk_n=$_sk_piece
    emit "$1" "$(tail -c +$((_sk_done + 1)) "$_sk_tail" | head -c "$_sk_n" | base64 -w0)"
    _sk_done=$((_sk_done + _sk_n))
  done
  rm -f "$_sk_tail"
}
uptime_ms() { read -r _sk_up _ </proc/uptime; _sk_up=@{_sk_up%.*}@{_sk_up#*.}0; }

mkfifo "$_sk_dir/o" "$_sk_dir/e" "$_sk_dir/t" "$_sk_dir/i"
exec 8<>"$_sk_dir/t" 4<>"$_sk_dir/o" 5<>"$_sk_dir/e"
echo 0 >&8
_sk_holder=
if [ "$_sk_stdin" = pipe ]; then
  exec 9<>"$_sk_dir/i" 7<"$_sk_dir/i"
  sleep 2147483647 >"$_sk_dir/i" 2>/dev/null 4>&- 5>&- 7<&- 8>&- 9>&- &
  _sk_holder=$!
  echo "$_sk_holder" >"$_sk_dir/holder"
  # Wait until the holder has the fifo open for writing.
  until [ -e "/proc/$_sk_holder/exe" ] && [ "/proc/$_sk_holder/fd/1" -ef "$_sk_dir/i" ]; do sleep 0.01; done
  exec 9>&-
else
  exec 7</dev/null
fi
relay o 3<"$_sk_dir/o" 4>&- 5>&- 7<&- 2>/dev/null &
_sk_relay_o=$!
relay e 3<"$_sk_dir/e" 4>&- 5>&- 7<&- 2>/dev/null &
_sk_relay_e=$!
_sk_clock=
if [ "$_sk_limit" != - ]; then
  (
    _sk_nap=
    trap 'kill $_sk_nap; exit 0' TERM
    sleep "$_sk_limit" &
    _sk_nap=$!
    wait $_sk_nap
    trap '' TERM
    : >"$_sk_dir/timedout"
    until [ -e "$_sk_dir/end" ]; do
      hunt KILL "$_sk_id"
      sleep 0.01
    done
  ) </dev/null >/dev/null 2>&1 4>&- 5>&- 7<&- 8>&- &
  _sk_clock=$!
fi
echo "s $_sk_kept"
uptime_ms
_sk_begun=$_sk_up
_sk_code=
if [ -n "$_sk_line" ]; then
  _sk_code=$(_sk_a=$_sk_cmd _sk_b=$_sk_dir _sk_c=$_sk_given _sk_i=$_sk_id awk 'BEGIN { print system(ARGV[1]) }' "$_sk_line" 4>&- 5>&- 8>&- 2>/dev/null)
fi
if [ -z "$_sk_code" ] && [ ! -e "$_sk_dir/began" ]; then
  (
    PATH=$_sk_given
    SANDKASTEN_PROCESS=$_sk_id
    export SANDKASTEN_PROCESS
    exec "$_sk_cmd" "$@" <&7 >"$_sk_dir/o" 2>"$_sk_dir/e" 4>&- 5>&- 7<&- 8>&-
  )
  _sk_code=$?
  [ "$_sk_code" -le 128 ] || _sk_code=$((_sk_code + 128))
fi
uptime_ms
exec 7<&-
: >"$_sk_dir/end"
printf %s "$_sk_nonce" >&4
printf %s "$_sk_nonce" >&5
wait $_sk_relay_o $_sk_relay_e
_sk_late=0
if [ -n "$_sk_clock" ]; then
  if [ -e "$_sk_dir/timedout" ]; then _sk_late=1; else kill "$_sk_clock" 2>/dev/null; fi
  wait "$_sk_clock" 2>/dev/null
fi
[ -z "$_sk_holder" ] || kill "$_sk_holder" 2>/dev/null
[ "$_sk_code" -lt 512 ] || _sk_code=$((_sk_code - 256))
_sk_signal=0
if [ "$_sk_code" -gt 256 ]; then
  _sk_signal=$((_sk_code - 256))
  _sk_code=$((128 + _sk_signal))
fi
_sk_exit="$_sk_code $_sk_signal $_sk_late $((_sk_up - _sk_begun))"
echo "$_sk_exit" >"$_sk_dir/exit"
read -r _sk_seq <&8
echo "x $((_sk_seq + 1)) $_sk_exit $_sk_kept"
rm -f "$_sk_dir/o" "$_sk_dir/e" "$_sk_dir/t" "$_sk_dir/i" "$_sk_dir/end" "$_sk_dir/began" "$_sk_dir/holder"
# The id stays claimed, so that a repeated request never starts a second program.
[ "$_sk_once" = - ] || rm -f "$_sk_dir/argv" "$_sk_dir/timedout"
exit 0
`

/** The command line for awk: the program, with only our mark added to its environment. `ARGS` are quoted. */
export function lineOf(quotedArgs: string): string {
  return script`
: >"$_sk_b/began"
_sk_x=$_sk_a _sk_y=$_sk_b PATH=$_sk_c SANDKASTEN_PROCESS=$_sk_i
unset _sk_a _sk_b _sk_c _sk_i OLDPWD
export SANDKASTEN_PROCESS
exec "$_sk_x" ${quotedArgs} <&7 >"$_sk_y/o" 2>"$_sk_y/e" 7<&-`
}

/** ROOT ID SIGNAL: exits with 0 if the program was running. */
export const kill = script`
${hunt}
_sk_dir=$1/p/$2
[ -d "$_sk_dir" ] && [ ! -s "$_sk_dir/exit" ] && [ ! -e "$_sk_dir/end" ] || exit 43
_sk_n=0
while :; do
  hunt "$3" "$2"
  [ -z "$_sk_any" ] || exit 0
  # The program is starting, or has just ended.
  if [ ! -d "$_sk_dir" ] || [ -e "$_sk_dir/end" ] || [ -s "$_sk_dir/exit" ]; then exit 43; fi
  _sk_n=$((_sk_n + 1))
  [ "$_sk_n" -lt 300 ] || exit 0
  sleep 0.01
done
`

/** ROOT ID: prints „running“, or „code signal timedOut ms“; exits with 44 if the process does not exist. */
export const look = script`
[ -d "$1/p/$2" ] || exit 44
if [ -s "$1/p/$2/exit" ]; then cat "$1/p/$2/exit"; else echo running; fi
`

/** ROOT ID CMD: stores the vendor's id for the script of this program. */
export const note = script`
[ -d "$1/p/$2" ] || exit 44
printf %s "$3" >"$1/p/$2/cmd.new" && mv -f "$1/p/$2/cmd.new" "$1/p/$2/cmd"
`

/** ROOT ID: prints the stored id. Waits a little, because the starter may be about to store it. */
export const find = script`
[ -d "$1/p/$2" ] || exit 44
_sk_n=0
until [ -s "$1/p/$2/cmd" ]; do
  _sk_n=$((_sk_n + 1))
  [ "$_sk_n" -lt 500 ] && [ -d "$1/p/$2" ] || exit 44
  sleep 0.02
done
cat "$1/p/$2/cmd"
`

/** ROOT: prints lines „id cmd exit|running argv64“. */
export const list = script`
for _sk_d in "$1"/p/*; do
  [ -s "$_sk_d/cmd" ] || continue
  _sk_exit=running _sk_cmd=
  read -r _sk_cmd <"$_sk_d/cmd"
  [ ! -s "$_sk_d/exit" ] || read -r _sk_exit <"$_sk_d/exit"
  printf '%s\t%s\t%s\t%s\n' "@{_sk_d##*/}" "$_sk_cmd" "$_sk_exit" "$(base64 -w0 <"$_sk_d/argv")"
done
exit 0
`

/** ROOT ID PART: writes the part to the program's stdin; exits with 43 if the program has ended. */
export const feed = script`
_sk_dir=$1/p/$2
[ -p "$_sk_dir/i" ] || { rm -f "$3"; exit 43; }
( if cat "$3" >"$_sk_dir/i"; then : >"$3.ok"; else : >"$3.no"; fi ) 2>/dev/null &
_sk_cat=$!
until [ -e "$3.ok" ] || [ -e "$3.no" ]; do
  if [ -s "$_sk_dir/exit" ] || [ ! -d "$_sk_dir" ]; then
    kill -9 "$_sk_cat" 2>/dev/null
    rm -f "$3" "$3.ok" "$3.no"
    exit 43
  fi
  sleep 0.01
done
_sk_code=0
[ -e "$3.ok" ] || _sk_code=43
rm -f "$3" "$3.ok" "$3.no"
exit $_sk_code
`

/** ROOT ID: closes stdin. */
export const close = script`
_sk_pid=
read -r _sk_pid 2>/dev/null <"$1/p/$2/holder" && kill "$_sk_pid" 2>/dev/null
exit 0
`
