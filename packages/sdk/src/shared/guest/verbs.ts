import { script } from './script.ts'

/**
 * The calls of a client. Every call has ID INC PROC: the sandbox, its start and the program; `at` and `may` belong to the
 * agent's place. A program's folder holds: spec, label, supervisor and pid (identities), index, o.N and e.N (output), exit,
 * r/ (readers), w/ (writers).
 *
 * Flags of a spawn: `i` opens stdin, `f` has it in the call, `r` sends the output in the same response, `t` starts a program
 * again if its record says that it has ended.
 *
 * Output is a stream (raw bytes until the exit) or, with WAIT and MAX, a page (base64, what there is after at most WAIT
 * milliseconds). A page's reader keeps its position for a minute, so the program waits for the next page.
 *
 *     o|e NUMBER BYTES, then the bytes      in a page: o|e NUMBER =BASE64
 *     x NUMBER CODE SIGNAL|- TIMEDOUT MS    the exit
 *     g NUMBER                              dropped; the oldest kept event
 *     l                                     the keeper was killed, so nothing follows
 *     z                                     the exit was before
 */
export const verbs = script`
verb_spawn() { # ID INC PROC CAP TIMEOUT FLAGS [READER WAIT MAX]; spec, label, stdin
  at "$1" "$2"
  line; spec=$LINE
  line; label=$LINE
  line; data=$LINE
  may "$2"
  P=$RUN/p-$3
  existed=0
  case $6 in *t*) [ ! -e "$P/exit" ] || rm -rf "$P" ;; esac
  if mkdir "$P" 2>/dev/null; then
    prepare && mkfifo "$P/ready" && unpack "$spec" 2>/dev/null >"$P/spec" && echo "$label" 2>/dev/null >"$P/label" &&
      { [ -z "$data" ] || unpack "$data" 2>/dev/null >"$P/stdin"; } ||
      { rm -rf "$P"; die 82; }
    exec 8<>"$P/ready"
    SANDKASTEN_SUPERVISOR="$ID/" detach supervise "$ID" "$START" "$3" "$4" "$5" "$6"
    read -r word value <&8
    exec 8<&-
    rm -f "$P/ready"
    [ "$word" = ok ] || { rm -rf "$P"; die "$value"; }
  else
    existed=1
    [ -d "$P" ] || die 72
    until [ -s "$P/pid" ] || [ -e "$P/exit" ] || without_pid; do [ -d "$P" ] || die 72; sleep 0.02; done
  fi
  pid=
  read -r pid _ 2>/dev/null <"$P/pid"
  say "started @{pid:--} $existed $START"
  case $6 in *r*) follow 0 "@{7--}" "@{8-0}" "@{9-0}" ;; esac
}
# The file is empty before it is written, and remains empty on a full disk. The first caller removes the fifo afterwards.
without_pid() { [ -e "$P/pid" ] && [ ! -e "$P/ready" ]; }
process() { # ID INC PROC
  at "$1" "$2"
  may "$2"
  P=$RUN/p-$3
  [ -d "$P" ] || die 79
}
verb_follow() { # ID INC PROC AFTER [READER WAIT MAX]
  process "$1" "$2" "$3"
  say found
  follow "$4" "@{5--}" "@{6-0}" "@{7-0}"
}
follow() { # AFTER READER|- WAIT MAX
  cd "$P" || die 79
  number=$1 reader=$2 wait=$3 most=$4 page=1 until=0 sent=0 ended=
  [ "$reader" != - ] || reader=$$
  [ "$most" -gt 0 ] || page=
  set -- 0 0 -1 0 -1 0
  [ "$number" -eq 0 ] || set -- $(awk -v n="$number" '{ kind = $1 }
    NR <= n { t[$1] += $3; if (p[$1] == $2 || !($1 in p)) s[$1] += $3; else s[$1] = $3; p[$1] = $2 }
    END { if (NR <= n && kind == "x") print "past"
      else print t["o"] + 0, t["e"] + 0, ("o" in p) ? p["o"] : -1, s["o"] + 0, ("e" in p) ? p["e"] : -1, s["e"] + 0 }' index)
  [ "$1" != past ] || { say z; return; }
  out=$1 err=$2 o_seg=-1 e_seg=-1 o_at=$3 o_skip=$4 e_at=$5 e_skip=$6
  stat_of $$
  since=$started
  [ -z "$page" ] || until=$(($(uptime_ms) + wait + 60000))
  self=$$
  place 2>/dev/null >"f-$$" && mv "f-$$" "r/$reader" || rm -f "f-$$"
  mkfifo "f-$$"
  # Ends with a page's time, or with the supervisor: a killed one would be waited for in vain. GNU's tail looks once a
  # second where it does not trust the file system to tell it of changes, as on overlays.
  set -- tail -n "+$((number + 1))" -f index
  if [ -e "$ROOT/tail-waits" ]; then
    set -- "$@" -s 0.05
    [ -n "$page" ] || ! read -r pid _ 2>/dev/null <supervisor || set -- "$@" --pid="$pid"
  fi
  [ -z "$page" ] || set -- timeout "$(seconds "$wait")" "$@"
  "$@" >"f-$$" 2>/dev/null & tail=$!
  watching=
  if [ -n "@{LIVE-}" ]; then
    # The client is gone when our input ends.
    exec 7<&0
    (cat <&7 >/dev/null; kill $self) 2>/dev/null & watching=$!
    exec 7<&-
  fi
  exec 3<"f-$$"
  rm -f "f-$$"
  trap 'kill $tail $watching 2>/dev/null; [ -n "$page" ] || rm -f "r/$reader"; exit 0' TERM
  goal=0 lingered=
  while read -r kind a b c d f g <&3; do
    number=$((number + 1))
    case $kind in
      o)
        [ $o_seg -eq "$a" ] || { [ -e "o.$a" ] || { lost; break; }; exec 5<"o.$a"; o_seg=$a; skip 5 "$o_at" "$a" "$o_skip"; }
        send o "$b" 5
        out=$((out + b))
        ;;
      e)
        [ $e_seg -eq "$a" ] || { [ -e "e.$a" ] || { lost; break; }; exec 6<"e.$a"; e_seg=$a; skip 6 "$e_at" "$a" "$e_skip"; }
        send e "$b" 6
        err=$((err + b))
        ;;
      x)
        say "x $number $a $b $c $d"
        ended=1
        break
        ;;
      l)
        say "g $((number + 1))"
        ended=1
        break
        ;;
    esac
    # Overwrites the last position: this needs no disk space, and readers see no partial line.
    place 1<>"r/$reader"
    [ -n "$page" ] || continue
    sent=$((sent + b))
    [ $sent -lt "$most" ] || break
    while [ $number -ge $goal ]; do
      goal=$(wc -l <index)
      [ $number -ge $goal ] || continue
      # The exit of a short program saves the reader a call.
      [ -z "$lingered" ] || break 2
      lingered=1
      sleep 0.02
    done
  done
  kill $tail $watching 2>/dev/null
  [ -n "$ended" ] || [ "$number" -lt "$(wc -l <index)" ] || [ "$(state_of .)" != lost ] || { say l; ended=1; }
  [ -n "$page" ] && [ -z "$ended" ] || rm -f "r/$reader"
}
place() { echo "$out $err $self $since $until $out $err"; }
seconds() { echo "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))"; }
send() { # kind bytes descriptor
  if [ -z "$page" ]; then
    say "$1 $number $2"
    dd bs="$2" count=1 <&$3 2>/dev/null
  else
    printf '%s %s =' "$1" "$number"
    dd bs="$2" count=1 <&$3 2>/dev/null | base64 | tr -d '\n'
    echo
  fi
}
# Skips the bytes of earlier events in their segment.
skip() { [ "$2" -ne "$3" ] || [ "$4" -eq 0 ] || dd bs="$4" skip=1 count=0 <&$1 2>/dev/null; }
lost() {
  ended=1
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
verb_reader() { # ID INC PROC READER keep|leave
  process "$1" "$2" "$3"
  cd "$P" || die 79
  reading "r/$4" || return 0
  if [ "$5" = leave ]; then
    rm -f "r/$4"
    [ "$until" != 0 ] || kill "$by"
    return
  fi
  self=$by until=$(($(uptime_ms) + 60000))
  place 1<>"r/$4"
}
state_of() { # folder
  if [ -e "$1/exit" ]; then read -r last <"$1/exit"; echo "ended $last"
  elif read -r pid since 2>/dev/null <"$1/supervisor" && ! is_there "$pid" "$since" && [ ! -e "$1/exit" ]; then echo lost
  else echo running; fi
}
verb_status() { # ID INC PROC [WAIT]; with WAIT, the exit if it comes in time
  process "$1" "$2" "$3"
  pid=-
  read -r pid _ 2>/dev/null <"$P/pid"
  now=$(state_of "$P") until=$(($(uptime_ms) + @{4-0}))
  while [ "$now" = running ] && [ "$(uptime_ms)" -lt "$until" ]; do
    sleep 0.05
    now=$(state_of "$P")
  done
  say "@{pid:--} $now"
}
# Programs of this library begin with a dot.
verb_processes() { # ID INC; prints „PROC SECONDS LABEL STATE…“
  at "$1" "$2"
  may "$2"
  for P in "$RUN"/p-[!.]*; do
    [ -e "$P/pid" ] && say "@{P##*/p-} $(date -r "$P/label" +%s 2>/dev/null || echo -) $(cat "$P/label") $(state_of "$P")"
  done
  return 0
}
verb_kill() { # ID INC PROC SIGNAL
  process "$1" "$2" "$3"
  [ ! -e "$P/exit" ] || { say 0; return; }
  mark=SANDKASTEN_PROCESS=$ID/$START/$3/
  if [ "$4" = KILL ]; then extinguish "$mark" "$P"; else signal "$4" "$mark" "$P"; fi
  say 1
}
# For a start without a response: ends the program, or keeps it from starting.
verb_cancel() { # ID INC PROC
  at "$1" "$2"
  P=$RUN/p-$3
  if mkdir "$P" 2>/dev/null; then echo "137 KILL 0 0" >"$P/exit"; echo "x 137 KILL 0 0" >"$P/index"
  else
    waited=0
    until [ -e "$P/pid" ] || [ -e "$P/exit" ] || [ ! -d "$P" ] || [ $waited -gt 250 ]; do sleep 0.02; waited=$((waited + 1)); done
    extinguish "SANDKASTEN_PROCESS=$ID/$START/$3/" "$P"
  fi
}
verb_stdin() { # ID INC PROC; bytes
  process "$1" "$2" "$3"
  pour $$
  say ready
  exec cat >&9
}
# Opens the program's stdin as descriptor 9, for a writer that ends with the program.
pour() { # pid
  cd "$P" && [ -p i ] && [ ! -e closed ] || die 81
  exec 8<>i 9>i 8<&-
  identity "$1" >"w/$1"
  [ ! -e closed ] || die 81
}
# Writes a part once, however often it is sent. Prints ok, closed, or wait if the program has not taken it yet.
verb_feed() { # ID INC PROC PART WAIT FILE|-; data, if there is no file
  process "$1" "$2" "$3"
  cd "$P" || die 79
  if mkdir "part-$4" 2>/dev/null; then
    if [ "$6" != - ]; then mv -f "$ROOT/$6" "part-$4/data"; else line; unpack "$LINE" >"part-$4/data"; fi || die 82
    detach poured "$ID" "$START" "$3" "$4"
  fi
  waited=0
  until [ -e "part-$4/ok" ] || [ -e "part-$4/closed" ] || [ $waited -gt "$5" ]; do
    sleep 0.02
    waited=$((waited + 20))
  done
  if [ -e "part-$4/ok" ]; then say ok
  elif [ -e "part-$4/closed" ] || [ -e closed ]; then say closed
  else say wait; fi
}
verb_poured() { # ID INC PROC PART
  process "$1" "$2" "$3"
  (
    read -r me _ </proc/self/stat
    pour "$me"
    exec cat "part-$4/data" >&9
  ) && true >"$P/part-$4/ok" || true >"$P/part-$4/closed"
  rm -f "$P/part-$4/data"
}
verb_eof() { # ID INC PROC
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
