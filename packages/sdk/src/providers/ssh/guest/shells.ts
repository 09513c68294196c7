import { families } from '../../../shared/guest/processes.ts'

/**
 * The agent's third part: shells that keep their state.
 *
 *     keeper ── bash ◄── fifo `in`: lines that run the script of one command and report its end
 *     supervisor of a command: writes the lines, pumps the output, waits on the command's fifo `st`
 *
 * For readers, a command is a program: the same folder, index and pump. Each command has its own output pipe, so later
 * output of a background job never mixes with another command's. Commands run with `source` rather than `eval`, because a
 * trap can `return` out of it. This ends a stuck command without ending the shell.
 */
export const shells = String.raw`
verb_shellopen() { # ID INC NAME; spec, prologue, cwd
  at "$1"
  read -r spec
  read -r prologue
  read -r cwd
  may "$2"
  S=$RUN/s-$3
  if mkdir "$S.new" 2>/dev/null; then
    if [ -d "$S" ]; then rm -rf "$S.new"; else
      unpack "$spec" >"$S.new/spec"
      unpack "$prologue" >"$S.new/prologue"
      unpack "$cwd" >"$S.new/cwd"
      echo 0 >"$S.new/last"
      mv "$S.new" "$S" || die 72
      wake "$1" "$2" "$3" || { code=$?; rm -rf "$S"; die $code; }
    fi
  else
    [ -d "$RUN" ] || die 72
    while [ -d "$S.new" ]; do sleep 0.02; done
    until [ -e "$S/pid" ]; do [ -d "$S" ] || die 72; sleep 0.02; done
  fi
  say "$(base64 <"$S/cwd" | tr -d '\n')"
}
wake() { # ID INC NAME
  rm -f "$S/ready" "$S/ended" "$S/told" "$S/pid"
  mkfifo "$S/ready"
  exec 8<>"$S/ready"
  SANDKASTEN_SUPERVISOR="$1/" detach keep "$1" "$3"
  read -r word value <&8
  exec 8<&-
  rm -f "$S/ready"
  [ "$word" = ok ] || return "$value"
}
verb_keep() { # ID NAME
  at "$1"
  S=$RUN/s-$2
  cd "$S" || exit
  rm -f in
  mkfifo in
  exec 8<>in
  cat prologue >&8
  setsid sh ./spec <in >/dev/null 2>&1 8<&-
  code=$?
  echo $code >ended.new
  mv ended.new ended
  [ -e pid ] || echo "fail 70" 1<>ready
  [ ! -p p-now/st ] || echo "ended $code" 1<>p-now/st
  true >told
}
quoted() { printf "'"; printf %s "$1" | sed "s/'/'\\\\''/g"; printf "'"; }

verb_exec() { # ID INC NAME COMMAND CAP TIMEOUT; script
  at "$1"
  read -r script
  may "$2"
  S=$RUN/s-$3 P=$RUN/p-$4
  [ -d "$S" ] || die 84
  if mkdir "$P" 2>/dev/null; then
    prepare && echo "$3" >"$P/shell" && unpack "$script" 2>/dev/null >"$P/script" || { rm -rf "$P"; die 82; }
    SANDKASTEN_SUPERVISOR="$1/" detach command "$@"
  fi
  [ -d "$P" ] || die 72
  say started
  follow 0
}
verb_command() { # ID INC NAME COMMAND CAP TIMEOUT
  at "$1"
  S=$RUN/s-$3 P=$RUN/p-$4 SHELL_MARK=SANDKASTEN_PROCESS=$1/$2/s-$3/
  cd "$P" || exit
  identity $$ >supervisor
  lock "$S/busy"
  restarted=0
  if [ ! -d "$S" ]; then
    note_end "137 - 0 0 0 -"
    exit
  fi
  if [ -e "$S/ended" ]; then
    restarted=1
    wake "$1" "$2" "$3" || { unlock "$S/busy"; note_end "126 - 0 0 1 -"; exit; }
  fi
  # A canceller sets its flag and then checks ours; we do it in reverse order. So one of the two sees the other.
  (cd /proc && echo [0-9]*) | tr ' ' '\n' >before
  true >given
  if [ -e cancelled ]; then
    true >over
    unlock "$S/busy"
    note_end "130 - 0 0 0 -"
    exit
  fi
  mkfifo st
  exec 9<>st
  open_pipe o 4 5
  (exec 5>&- 9<&-; pump o "$5") & pump_o=$!
  rm -f "$S/p-now"
  ln -s "$P" "$S/p-now"
  read -r last <"$S/last"
  again=
  [ "$last" = 0 ] || again="__sandkasten_status $last || "
  begun=$(uptime_ms)
  {
    printf '%s\\builtin source %s </dev/null >%s 2>&1\n' "$again" "$(quoted "$P/script")" "$(quoted "$P/o")"
    printf '{ \\builtin printf "code %%s\\n" "$?"; \\builtin pwd >|%s; \\builtin printf "done\\n"; } >|%s\n' \
      "$(quoted "$P/cwd")" "$(quoted "$P/st")"
  } 1<>"$S/in"
  clock=
  if [ "$6" != - ]; then
    (
      exec 4<&- 5>&- 9<&-
      sleep "$6" & nap=$!
      trap 'kill $nap; exit' TERM
      wait $nap
      trap : TERM
      true >timedout
      interrupt
    ) & clock=$!
  fi
  # First comes the exit code, then the end of the command; or only the end of the shell.
  code=
  while read -r word value <&9 && [ "$word" = code ]; do code=$value; done
  took=$(($(uptime_ms) - begun))
  true >over
  [ "$word" = done ] || code=$value
  if [ -n "$clock" ]; then
    if [ -e timedout ]; then wait $clock; else kill $clock; fi
  fi
  while read -r pid since 2>/dev/null <interrupting && is_there "$pid" "$since"; do sleep 0.02; done
  exec 5>&- 9<&-
  settle $pump_o o
  timed=0
  [ ! -e timedout ] || timed=1
  # Overwrites the previous status, which needs no disk space. On a full disk, the last known folder stays.
  if [ "$word" = done ]; then
    printf '%-3s\n' "$code" 1<>"$S/last"
    [ -s cwd ] && cp cwd "$S/cwd.new" 2>/dev/null && mv "$S/cwd.new" "$S/cwd"
  else printf '%-3s\n' 0 1<>"$S/last"; fi
  rm -f script before "$S/p-now"
  note_end "$code - $timed $took $restarted $(base64 <"$S/cwd" | tr -d '\n')"
  unlock "$S/busy"
  [ -e o.eof ] || cat <&4 >/dev/null 2>&1 &
}
# Ends the programs of one shell command, not those of earlier commands. Kills the shell only if it does not respond.
interrupt() { # with P, S and SHELL_MARK
  true >"$P/cancelled"
  [ -e "$P/given" ] || return 0
  sh -c 'echo $PPID' >"$P/interrupter"
  read -r me <"$P/interrupter"
  identity "$me" >"$P/interrupting"
  # Without a bash there is no process to signal, and an empty id must not address our own group.
  read -r bash since 2>/dev/null <"$S/pid" && is_there "$bash" "$since" || bash=
  round=0
  while [ -n "$bash" ] && [ ! -e "$P/over" ] && [ $round -lt 60 ]; do
    sig=INT
    [ $round -lt 3 ] || sig=KILL
    for kid in $(children "$bash"); do
      old "$kid" || subtree "$kid" $sig
    done
    [ ! -e "$P/over" ] || break
    kill -s USR1 "$bash" 2>/dev/null
    sleep 0.03
    round=$((round + 1))
  done
  [ -z "$bash" ] || [ -e "$P/over" ] || kill -s KILL "$bash" 2>/dev/null
  quiet=0 round=0
  while [ $quiet -lt 2 ] && [ $round -lt 50 ]; do
    quiet=$((quiet + 1)) round=$((round + 1))
    for pid in $(marked "$SHELL_MARK"); do
      younger "$pid" && kill -s KILL "$pid" 2>/dev/null && quiet=0
    done
    [ $quiet -ge 2 ] || sleep 0.02
  done
  rm -f "$P/interrupting"
}
old() { grep -qx "$1" "$P/before" 2>/dev/null; }
${families}
verb_shellclose() { # ID INC NAME
  at "$1"
  may "$2"
  S=$RUN/s-$3
  mv "$S" "$S.gone.$$" 2>/dev/null || { say 0; return; }
  extinguish "SANDKASTEN_PROCESS=$1/$2/s-$3/" "$S.gone.$$"
  # The keeper tells callers that wait for a command that the shell has ended.
  waited=0
  until [ -e "$S.gone.$$/told" ] || [ $waited -gt 250 ]; do sleep 0.02; waited=$((waited + 1)); done
  rm -rf "$S.gone.$$"
  say 1
}
`
