import { script } from './script.ts'

/**
 * The keeper of one program. It outlives the call that started it, and every client.
 *
 *     supervisor ── awk ── program            awk, because it tells a signal from an exit code, which a shell does not
 *         ├── pump: fifo o ──► o.0 o.1 …      segments, so that the oldest can be dropped
 *         ├── pump: fifo e ──► e.0 …
 *         └── clock, if there is a timeout
 *     index: one line for each chunk, appended by both pumps; the line number is the event number
 *
 * A reader follows `index` and records its position in `r/NAME`. A pump waits for slow readers. Without readers it drops
 * the oldest segments. On a full disk it discards further output and records that in the index. A program has ended when
 * its process has, even if its pipes are still open. Its output is complete when a pump's `dd` sleeps, waiting for more.
 */
export const keeper = script`
piece_of() { # capacity
  SEGMENT=$(($1 / 4))
  [ $SEGMENT -ge 4096 ] || SEGMENT=4096
  BLOCK=$SEGMENT
  [ $BLOCK -le 65536 ] || BLOCK=65536
}
# Reads descriptor 4 to its end.
pump() { # stream capacity
  piece_of "$2"
  seg=0 off=0 total=0 first=0 graced= ends=
  true >"$1.0"
  while :; do
    full=
    dd bs=$BLOCK count=1 <&4 >>"$1.$seg" 2>/dev/null || full=1
    size=$(wc -c <"$1.$seg")
    n=$((size - off))
    [ $n -le 0 ] || echo "$1 $seg $n" 2>/dev/null >>index || full=1
    # The disk is full: discard output, so that the program does not block.
    [ -z "$full" ] || { true >lost; dd bs=65536 <&4 >/dev/null 2>&1; break; }
    [ $n -gt 0 ] || break
    off=$size total=$((total + n))
    if [ $off -ge $SEGMENT ]; then
      ends="$ends $total"
      seg=$((seg + 1)) off=0
    fi
    held "$1" "$2"
    while [ $((seg - first)) -gt 4 ] && oldest=@{ends# } && [ "@{oldest%% *}" -le "$least" ]; do
      rm -f "$1.$first"
      first=$((first + 1))
      case $oldest in *' '*) ends=@{oldest#* } ;; *) ends= ;; esac
    done
  done
  true >"$1.eof"
}
# Waits while a reader is more than half the capacity behind. A new program's first reader gets time to connect.
# A reader of pages gets more room, so that its pages are not small.
held() {
  patience=250
  while :; do
    least=$total some= ahead=$(($2 / 2))
    for reader in r/*; do
      reading "$reader" || continue
      some=1 graced=1
      [ "$until" = 0 ] || [ $ahead -ge 2097152 ] || ahead=2097152
      [ "$1" = o ] || out=$err
      [ "$out" -ge $least ] || least=$out
    done
    [ $((total - least)) -gt $ahead ] && { sleep 0.02; continue; }
    [ -n "$graced$some" ] || [ $total -lt "$2" ] || [ $patience -le 0 ] && break
    patience=$((patience - 1))
    [ $patience -gt 0 ] || graced=1
    sleep 0.02
  done
}
# Whether a reader lives: its process does, or its lease has not ended. Sets its position in out and err.
reading() { # file: out err pid since until out err
  [ -e "$1" ] || return
  # Read again if it was overwritten meanwhile: then its ends differ.
  for try in 1 2 3 4 5 6 7 8; do
    out= err= by= since= until= again=
    read -r out err by since until again 2>/dev/null <"$1"
    [ "$again" != "$out $err" ] || break
  done
  is_there "$by" "$since" || [ "@{until:-0}" -gt "$(uptime_ms)" ] || { rm -f "$1"; return 1; }
}
# Waits until all output so far is in the index: the pump is at the end, sleeps, or has since read more than the largest
# pipe and a block hold.
settle() { # pump stream
  rounds=0 before=$(bytes_of "$2")
  while [ ! -e "$2.eof" ] && kill -0 "$1" 2>/dev/null; do
    kids= asleep=
    read -r kids 2>/dev/null <"/proc/$1/task/$1/children"
    for kid in $kids; do
      stat_of "$kid" && [ "$comm $kind" = 'dd S' ] && asleep=1
    done
    [ -z "$asleep" ] || break
    rounds=$((rounds + 1))
    [ $((rounds % 10)) -ne 0 ] || [ $(($(bytes_of "$2") - before)) -lt 1114112 ] || break
    sleep 0.01
  done
  [ -e "$2.eof" ] || kill -s KILL "$1" $kids 2>/dev/null
}
bytes_of() { awk -v s="$1" '$1 == s { t += $3 } END { print t + 0 }' index; }

# Runs a line, and sets CODE, and SIGNAL if a signal ended it.
run_line() {
  SIGNAL=-
  if [ -e "$ROOT/awk-tells" ]; then
    CODE=$(awk 'BEGIN { print system(ARGV[1]) }' "$1")
    [ "$CODE" -lt 512 ] || CODE=$((CODE - 256))
    [ "$CODE" -le 256 ] || SIGNAL=$((CODE - 256))
  else
    sh -c "$1"
    CODE=$?
    [ "$CODE" -le 128 ] || SIGNAL=$((CODE - 128))
  fi
  [ "$SIGNAL" = - ] || { CODE=$((128 + SIGNAL)); SIGNAL=$(kill -l "$SIGNAL"); }
}
open_pipe() { # name, read descriptor 4 and write descriptor 5
  mkfifo "$1"
  eval "exec 3<>$1 $2<$1 $3>$1 3>&-"
}

verb_supervise() { # ID INC PROC CAP TIMEOUT FLAGS
  at "$1" "$2"
  P=$RUN/p-$3 MARK=$1/$2/$3/
  cd "$P" || exit
  identity $$ >supervisor
  open_pipe o 4 5
  (exec 5>&-; pump o "$4") & pump_o=$!
  exec 6<&4 4<&-
  open_pipe e 4 7
  (exec 5>&- 7>&- 6<&-; pump e "$4") & pump_e=$!
  in=/dev/null
  case $6 in *f*) in=stdin ;; *i*)
    mkfifo i
    exec 3<>i 9>i 3<&-
    in=i
    # Holds the writing end open until end-of-file is requested.
    sleep 2147483647 >&9 4<&- 5>&- 6<&- 7>&- &
    identity $! >holder
    exec 9>&-
    ;;
  esac
  clock=
  if [ "$5" != - ]; then
    (
      exec 4<&- 5>&- 6<&- 7>&-
      sleep "$5" & nap=$!
      trap 'kill $nap; exit' TERM
      wait $nap
      trap : TERM
      true >timedout
      extinguish "SANDKASTEN_PROCESS=$MARK" "$P"
    ) & clock=$!
  fi
  begun=$(uptime_ms)
  run_line "export SANDKASTEN_PROCESS=$MARK; exec setsid sh ./spec <$in >o 2>e 4<&- 5>&- 6<&- 7>&-"
  took=$(($(uptime_ms) - begun))
  if [ -n "$clock" ]; then
    if [ -e timedout ]; then wait $clock; else kill $clock; fi
  fi
  exec 5>&- 7>&-
  let_go .
  true >closed
  # A writer whose data was read is about to end.
  for writer in w/*; do
    read -r pid since 2>/dev/null <"$writer" || continue
    patience=5
    while is_there "$pid" "$since" && [ $patience -gt 0 ]; do sleep 0.02; patience=$((patience - 1)); done
    ! is_there "$pid" "$since" || kill "$pid" 2>/dev/null
  done
  settle $pump_o o
  settle $pump_e e
  timed=0
  [ ! -e timedout ] || timed=1
  note_end "$CODE $SIGNAL $timed $took"
  # The program ended before it reported that it runs.
  [ -e pid ] || echo "fail 70" 1<>ready
  [ -e o.eof ] || cat <&6 >/dev/null 2>&1 &
  exec 6<&-
  [ -e e.eof ] || cat <&4 >/dev/null 2>&1 &
  exec 4<&-
  tidy
}
# Removes the records of ended programs beyond the newest 100 and beyond 64 MiB, except those that are being read.
tidy() {
  cd "$RUN" || return
  { du -sk p-*; ls -t p-*/exit; } 2>/dev/null | awk '
    NF == 2 { kib[$2] = $1; next }
    { sub(/\/exit$/, ""); total += kib[$0]; if (++n > 100 || (n > 1 && total > 65536)) print }' |
    while read -r old; do
      for reader in "$old"/r/*; do ! reading "$reader" || continue 2; done
      rm -rf "$old"
    done
}
# If output was lost, an event before the exit says so. Its space was reserved, so it also fits on a full disk.
note_end() {
  echo "$1" 1<>exit.new && mv exit.new exit
  last="x $1"
  [ ! -e lost ] || last="l$NL$last"
  until echo "$last" 2>/dev/null >>index; do
    [ -d "$P" ] || exit
    [ -e reserve ] || sleep 1
    rm -f reserve
  done
  rm -f reserve
}
let_go() { read -r pid since 2>/dev/null <"$1/holder" && is_there "$pid" "$since" && kill "$pid" 2>/dev/null; }
# Creates the folder of a program, and reserves space for its exit record.
prepare() {
  mkdir "$P/r" "$P/w" && true >"$P/index" && printf '%512s' '' 2>/dev/null >"$P/exit.new" && printf '%512s' '' 2>/dev/null >"$P/reserve"
}
`
