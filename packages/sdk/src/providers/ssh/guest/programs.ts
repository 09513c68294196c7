/**
 * The agent's second part: programs and their output.
 *
 *     supervisor ── awk ── program            awk, because it tells a signal from an exit code, which a shell does not
 *         ├── pump: fifo o ──► o.0 o.1 …      segments, so that the oldest can be dropped
 *         ├── pump: fifo e ──► e.0 …
 *         └── clock, if there is a timeout
 *     index: one line for each chunk, appended by both pumps; the line number is the event number
 *
 * A reader follows `index` and records its position in `r/PID`. A pump waits for slow readers. Without readers it drops
 * the oldest segments. On a full disk it discards further output and records that in the index. A program has ended when
 * its process has, even if its pipes are still open. Its output is complete when a pump's `dd` sleeps, waiting for more.
 */
export const programs = `
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
held() {
  patience=250
  while :; do
    least=$total some=
    for reader in r/*; do
      [ -e "$reader" ] || continue
      out= err= since=
      some=1 graced=1
      if ! read -r out err since 2>/dev/null <"$reader"; then
        # The reader is writing the file right now, or was killed while writing it.
        kill -0 "@{reader##*/}" 2>/dev/null && out=0 err=0 || { rm -f "$reader"; continue; }
      elif ! is_there "@{reader##*/}" "$since"; then
        rm -f "$reader"
        continue
      fi
      [ "$1" = o ] || out=$err
      [ "$out" -ge $least ] || least=$out
    done
    [ $((total - least)) -gt $(($2 / 2)) ] && { sleep 0.02; continue; }
    [ -n "$graced$some" ] || [ $total -lt "$2" ] || [ $patience -le 0 ] && break
    patience=$((patience - 1))
    [ $patience -gt 0 ] || graced=1
    sleep 0.02
  done
}
# Waits until all output so far is in the index: the pump is at the end, sleeps, or has read more than a pipe holds.
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
    [ $((rounds % 10)) -ne 0 ] || [ $(($(bytes_of "$2") - before)) -lt 65536 ] || break
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

verb_supervise() { # ID INC PROC CAP TIMEOUT STDIN
  at "$1"
  P=$RUN/p-$3 MARK=$1/$2/$3/
  cd "$P" || exit
  identity $$ >supervisor
  open_pipe o 4 5
  (exec 5>&-; pump o "$4") & pump_o=$!
  exec 6<&4 4<&-
  open_pipe e 4 7
  (exec 5>&- 7>&- 6<&-; pump e "$4") & pump_e=$!
  in=/dev/null
  if [ "$6" = 1 ]; then
    mkfifo i
    exec 3<>i 9>i 3<&-
    in=i
    # Holds the writing end open until end-of-file is requested.
    sleep 2147483647 >&9 4<&- 5>&- 6<&- 7>&- &
    identity $! >holder
    exec 9>&-
  fi
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
  run_line "exec setsid sh ./spec <$in >o 2>e 4<&- 5>&- 6<&- 7>&-"
  took=$(($(uptime_ms) - begun))
  if [ -n "$clock" ]; then
    if [ -e timedout ]; then wait $clock; else kill $clock; fi
  fi
  exec 5>&- 7>&-
  let_go .
  true >closed
  for writer in w/*; do
    read -r pid since 2>/dev/null <"$writer" && is_there "$pid" "$since" && kill "$pid" 2>/dev/null
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

verb_spawn() { # ID INC PROC CAP TIMEOUT STDIN READ; spec
  at "$1"
  read -r spec
  may "$2"
  P=$RUN/p-$3
  existed=0
  if mkdir "$P" 2>/dev/null; then
    prepare && mkfifo "$P/ready" && unpack "$spec" 2>/dev/null >"$P/spec" || { rm -rf "$P"; die 82; }
    exec 8<>"$P/ready"
    SANDKASTEN_SUPERVISOR="$1/" detach supervise "$1" "$2" "$3" "$4" "$5" "$6"
    read -r word value <&8
    exec 8<&-
    rm -f "$P/ready"
    [ "$word" = ok ] || { rm -rf "$P"; die "$value"; }
  else
    existed=1
    [ -d "$P" ] || die 72
    until [ -e "$P/pid" ] || [ -e "$P/exit" ]; do [ -d "$P" ] || die 72; sleep 0.02; done
  fi
  read -r pid _ <"$P/pid"
  say "started $pid $existed"
  [ "$7" = 0 ] || follow 0
}
process() { # ID INC PROC
  at "$1"
  may "$2"
  P=$RUN/p-$3
  [ -d "$P" ] || die 79
}
verb_follow() { # ID INC PROC AFTER
  process "$1" "$2" "$3"
  say found
  follow "$4"
}
# Sends events after a number, until the exit. Ends when our own input ends, because the client is gone then.
follow() {
  cd "$P" || die 79
  # A reader that has seen the exit has seen everything.
  case $(awk -v n="$1" '{ last = $1 } END { if (NR <= n) print last }' index) in x) return ;; esac
  stat_of $$
  since=$started
  echo "0 0 $since" >"r/$$"
  self=$$
  exec 7<&0
  (cat <&7 >/dev/null; kill $self) 2>/dev/null & watcher=$!
  exec 7<&-
  mkfifo "f-$$"
  number=$1
  tail -n "+$(($1 + 1))" -f index >"f-$$" 2>/dev/null & tail=$!
  exec 3<"f-$$"
  rm -f "f-$$"
  trap 'kill $tail $watcher 2>/dev/null; rm -f "r/$$"; exit 0' TERM
  set -- $(awk -v n="$1" 'NR <= n { t[$1] += $3; if (p[$1] == $2 || !($1 in p)) s[$1] += $3; else s[$1] = $3; p[$1] = $2 }
    END { print t["o"] + 0, t["e"] + 0, ("o" in p) ? p["o"] : -1, s["o"] + 0, ("e" in p) ? p["e"] : -1, s["e"] + 0 }' index)
  out=$1 err=$2 o_seg=-1 e_seg=-1 o_at=$3 o_skip=$4 e_at=$5 e_skip=$6
  while read -r kind a b c d f g <&3; do
    number=$((number + 1))
    case $kind in
      o)
        [ $o_seg -eq "$a" ] || { [ -e "o.$a" ] || { lost; break; }; exec 5<"o.$a"; o_seg=$a; skip 5 "$o_at" "$a" "$o_skip"; }
        say "o $number $b"
        dd bs="$b" count=1 <&5 2>/dev/null
        out=$((out + b))
        ;;
      e)
        [ $e_seg -eq "$a" ] || { [ -e "e.$a" ] || { lost; break; }; exec 6<"e.$a"; e_seg=$a; skip 6 "$e_at" "$a" "$e_skip"; }
        say "e $number $b"
        dd bs="$b" count=1 <&6 2>/dev/null
        err=$((err + b))
        ;;
      x)
        say "x $number $a $b $c $d $f $g"
        break
        ;;
      l)
        say "g $((number + 1))"
        break
        ;;
    esac
    # Overwrites the last position: this needs no disk space, and readers see no partial line.
    echo "$out $err $since" 1<>"r/$$"
  done
  rm -f "r/$$"
  kill $tail $watcher 2>/dev/null
}
# Skips the bytes of earlier events in their segment.
skip() { [ "$2" -ne "$3" ] || [ "$4" -eq 0 ] || dd bs="$4" skip=1 count=0 <&$1 2>/dev/null; }
lost() {
  least_of o; o=$least
  least_of e
  say "g $(awk -v o="$o" -v e="$least" '($1 == "o" && $2 < o) || ($1 == "e" && $2 < e) { last = NR } END { print last + 1 }' index)"
}
least_of() {
  least=
  for segment in "$1".[0-9]*; do
    segment=@{segment#*.}
    [ -n "$least" ] && [ "$least" -le "$segment" ] || least=$segment
  done
}
state_of() { # folder
  if [ -e "$1/exit" ]; then read -r line <"$1/exit"; echo "ended $line"
  elif read -r pid since 2>/dev/null <"$1/supervisor" && ! is_there "$pid" "$since" && [ ! -e "$1/exit" ]; then echo lost
  else echo running; fi
}
verb_status() { process "$1" "$2" "$3"; pid=-; read -r pid _ 2>/dev/null <"$P/pid"; say "@{pid:--} $(state_of "$P")"; }
verb_processes() { # ID INC
  at "$1"
  may "$2"
  for P in "$RUN"/p-*; do
    [ -d "$P" ] && [ ! -e "$P/shell" ] && [ -e "$P/pid" ] && say "@{P##*/p-} $(state_of "$P")"
  done
  return 0
}
verb_kill() { # ID INC PROC SIGNAL
  process "$1" "$2" "$3"
  [ ! -e "$P/exit" ] || { say 0; return; }
  if read -r name 2>/dev/null <"$P/shell"; then
    S=$RUN/s-$name SHELL_MARK=SANDKASTEN_PROCESS=$1/$2/s-$name/
    interrupt
    say 1
    return
  fi
  mark=SANDKASTEN_PROCESS=$1/$2/$3/
  if [ "$4" = KILL ]; then extinguish "$mark" "$P"; else signal "$4" "$mark" "$P"; fi
  say 1
}
verb_stdin() { # ID INC PROC
  process "$1" "$2" "$3"
  cd "$P"
  [ -p i ] && [ ! -e closed ] || die 81
  exec 8<>i 9>i 8<&-
  identity $$ >"w/$$"
  [ ! -e closed ] || die 81
  say ready
  exec cat >&9
}
verb_eof() {
  process "$1" "$2" "$3"
  true >"$P/closed"
  let_go "$P"
  return 0
}
# The terminal of script(1) is the stdin of its child, once the child has become the program.
verb_resize() { # ID INC PROC COLS ROWS
  process "$1" "$2" "$3"
  read -r top _ <"$P/pid"
  tries=0
  while [ $tries -lt 200 ] && [ ! -e "$P/exit" ]; do
    kids=
    read -r kids 2>/dev/null <"/proc/$top/task/$top/children"
    for kid in $kids; do
      if has_mark SANDKASTEN_TERMINAL=ready "/proc/$kid/environ"; then
        stty rows "$5" cols "$4" <"/proc/$kid/fd/0" && return 0
      fi
    done
    sleep 0.02
    tries=$((tries + 1))
  done
  die 83
}
`
