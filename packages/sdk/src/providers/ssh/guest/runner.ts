/**
 * The agent's part for our runner, if the client has uploaded it (`bin/runner-HASH`). The runner starts and ends with an
 * incarnation, and supervises all its programs and shells. `run/runner` holds its process and its binary, and is written
 * only when the runner responds. If it does not start, the script supervises programs. The agent keeps sandboxes, names,
 * locks and clocks.
 */
export const runner = `
runner_of() { rpid= rsince= rhash=; read -r rpid rsince rhash 2>/dev/null <"$RUN/$1"; }
has_runner() { [ -e "$RUN/runner" ]; }
runner_lives() { runner_of runner && is_there "$rpid" "$rsince"; }

kindle() { # HASH, or - for none
  [ "$1" != - ] && [ -e "$ROOT/bin/runner-$1" ] || return 0
  # On a full disk the runner cannot record that it runs, so do not start it.
  echo - 2>/dev/null >"$RUN/runner.part" || return 0
  detach serve "$ID" "$1"
  waited=0
  until [ -S "$RUN/socket" ]; do
    waited=$((waited + 1))
    if [ $waited -gt 500 ] || { runner_of runner.new && ! is_there "$rpid" "$rsince"; }; then break; fi
    sleep 0.02
  done
  # If /proc hides the process from its own account, the agent could not identify it later.
  if runner_of runner.new && [ -S "$RUN/socket" ] && is_there "$rpid" "$rsince"; then mv "$RUN/runner.new" "$RUN/runner"
  else
    [ -z "$rpid" ] || kill -s KILL "$rpid" 2>/dev/null
    rm -f "$RUN/runner.new" "$RUN/socket"
  fi
}
verb_serve() { # ID HASH
  at "$1"
  cd "$RUN" || exit
  echo "$(identity $$) $2" >runner.part && mv runner.part runner.new || exit
  mask=$SANDKASTEN_UMASK
  unset SANDKASTEN_UMASK SSH_CLIENT SSH_CONNECTION SSH_TTY CDPATH OLDPWD
  # Uses a short relative name, because a socket path has at most 107 bytes.
  exec "$ROOT/bin/runner-$2" serve --socket socket --umask "$mask"
}
# The first signal asks programs to end, the second kills them. The sandbox’s mark finds remaining processes.
quench() {
  for note in runner runner.new; do
    runner_of $note || continue
    waited=0
    while is_there "$rpid" "$rsince" && [ $waited -lt 150 ]; do
      kill "$rpid" 2>/dev/null
      sleep 0.02
      waited=$((waited + 1))
    done
    ! is_there "$rpid" "$rsince" || kill -s KILL "$rpid" 2>/dev/null
  done
}
# A sandbox whose runner was killed has stopped: its programs have no supervisor.
bereft() {
  has_runner && ! runner_lives || return 1
  : >"$SB/crashed"
}
worked_by() {
  if has_runner; then echo runner; elif [ -e "$SB/crashed" ]; then echo crashed; else echo shell; fi
}
verb_try() { # HASH
  "$ROOT/bin/runner-$1" version 2>&1 && say ok
  return 0
}
verb_bridge() { # ID INC
  at "$1"
  may "$2"
  runner_lives || { look; [ "$STATUS" != stopped ] || die 72; die 86; }
  cd "$RUN" || die 72
  say ready
  exec "$ROOT/bin/runner-$rhash" bridge --socket socket
}
`
