/** The agent's last part: the lifecycle of sandboxes, and the dispatch of verbs. */
export const lifecycle = String.raw`
verb_hello() {
  mkdir -p "$ROOT/names" "$ROOT/sandboxes" || die 70
  probe || return 0
  sweep
  say "$(uname -s) $(uname -m) $(id -u)"
  printf '%s' "$ROOT" | base64 | tr -d '\n'
  say
}
verb_create() { # ID INC LIFETIME NAMEHASH READY RUNNER; record
  line; record=$LINE
  ID=$1 INC=$2 LIFE=$3 EXPIRES=-
  SB=$ROOT/sandboxes/$ID RUN=$SB/run
  [ "$LIFE" = - ] || EXPIRES=$(($(now_ms) + LIFE))
  draft=$ROOT/sandboxes/.new-$ID-$(by_us)
  mkdir "$draft" && mkdir "$draft/work" "$draft/run" "$draft/partial" || die 82
  printf '%s' "$record" >"$draft/record" && [ "$(wc -c <"$draft/record")" -eq @{#record} ] || { rm -rf "$draft"; die 82; }
  if [ "$5" = 1 ]; then STATUS=running BOOT=$(boot_id)
  else STATUS=creating BOOT=$(($(now_ms) + 3600000)); fi
  echo "$STATUS $INC $EXPIRES $LIFE $BOOT" >"$draft/state" && printf '%s' "$4" >"$draft/name" || { rm -rf "$draft"; die 82; }
  if [ "$4" != - ]; then claim "$4" "$ID" || { rm -rf "$draft"; die 74; }; fi
  mv "$draft" "$SB" || { rm -rf "$draft"; die 82; }
  enliven "$6"
  say "$(worked_by)"
}
# A name is a file that contains an id. A hard link makes it atomic. A name of a removed sandbox is taken over.
claim() {
  echo "$2" >"$ROOT/names/.$2"
  for try in 1 2 3 4 5; do
    if ln "$ROOT/names/.$2" "$ROOT/names/$1" 2>/dev/null; then rm -f "$ROOT/names/.$2"; return 0; fi
    owner=
    read -r owner 2>/dev/null <"$ROOT/names/$1"
    if [ -n "$owner" ] && exists "$owner"; then break; fi
    lock "$ROOT/names/.lock"
    now=
    read -r now 2>/dev/null <"$ROOT/names/$1"
    [ "$now" != "$owner" ] || rm -f "$ROOT/names/$1"
    unlock "$ROOT/names/.lock"
  done
  rm -f "$ROOT/names/.$2"
  return 1
}
exists() {
  [ -d "$ROOT/sandboxes/$1" ] && return
  set -- "$ROOT/sandboxes/.new-$1-"*
  [ -d "$1" ]
}
verb_find() { # NAMEHASH
  owner=
  read -r owner 2>/dev/null <"$ROOT/names/$1"
  if [ -n "$owner" ] && [ -d "$ROOT/sandboxes/$owner" ]; then say "$owner"; fi
}
tell() {
  look
  say "$ID $STATUS $INC $EXPIRES $(cat "$SB/record") $(worked_by)"
}
verb_state() { at "$1"; tell; }
verb_list() {
  for SB in "$ROOT"/sandboxes/*; do
    [ -d "$SB" ] || continue
    (at "@{SB##*/}"; tell) 2>/dev/null
  done
  return 0
}
verb_ready() {
  at "$1"
  lock "$SB/lock"
  load
  [ "$STATUS" = creating ] && { STATUS=running BOOT=$(boot_id); save; }
  unlock "$SB/lock"
}
verb_stop() { # ID INC
  at "$1"
  load
  [ "$STATUS" = stopped ] || [ "$INC" = "$2" ] || die 73
  [ "$STATUS" = stopped ] || finish "$2"
}
verb_start() { # ID NEWINC RUNNER
  at "$1"
  look
  lock "$SB/lock"
  load
  if [ "$STATUS" = stopped ]; then
    halt
    rm -rf "$RUN"
    STATUS=running INC=$2 EXPIRES=- BOOT=$(boot_id)
    [ "$LIFE" = - ] || EXPIRES=$(($(now_ms) + LIFE))
    save
    enliven "$3"
  fi
  unlock "$SB/lock"
  tell
}
verb_extend() { # ID INC MS
  at "$1"
  may "$2"
  lock "$SB/lock"
  load
  if [ "$EXPIRES" != - ]; then
    later=$(($(now_ms) + $3))
    [ "$later" -le "$EXPIRES" ] || { EXPIRES=$later; save; }
  fi
  unlock "$SB/lock"
}
# The clock of a sandbox. It checks again, because the lifetime may have been extended.
verb_expire() { # ID INC
  at "$1"
  while load && [ "$INC" = "$2" ] && [ "$STATUS" != stopped ]; do
    left=$((EXPIRES - $(now_ms)))
    if [ $left -le 0 ]; then
      # Without the mark: otherwise it would find itself and its own children.
      [ "$STATUS" = creating ] || { unset SANDKASTEN_SANDBOX; exec sh "$ME" - over "$ID" "$INC"; }
      left=1000
    fi
    [ $left -le 30000 ] || left=30000
    sleep "$((left / 1000)).$(printf %03d $((left % 1000)))"
  done
}
verb_over() { at "$1"; finish "$2"; } # ID INC
verb_destroy() { # ID
  at "$1"
  rm -f "$SB"/live-*
  gone=$ROOT/sandboxes/.gone-$ID-$(by_us)
  read -r hash <"$SB/name" 2>/dev/null || hash=$(cat "$SB/name")
  mv "$SB" "$gone" 2>/dev/null || die 71
  SB=$gone RUN=$gone/run
  halt
  owner=
  [ "$hash" = - ] || read -r owner 2>/dev/null <"$ROOT/names/$hash"
  [ "$owner" != "$ID" ] || rm -f "$ROOT/names/$hash"
  remove "$gone" || die 77
}
# The process that creates or removes a sandbox, as part of a folder name.
by_us() { stat_of $$ && echo "$$-$started"; }
# Removes the leftovers of interrupted creates and destroys.
sweep() {
  for left in "$ROOT"/sandboxes/.gone-* "$ROOT"/sandboxes/.new-*; do
    [ -d "$left" ] || continue
    rest=@{left##*/.}; rest=@{rest#*-}
    ID=@{rest%%-*}; rest=@{rest#*-}
    is_there "@{rest%-*}" "@{rest#*-}" && continue
    SB=$left RUN=$left/run
    halt
    remove "$left"
  done
  for left in "$ROOT"/names/.[a-z2-7]*; do
    [ ! -f "$left" ] || exists "@{left##*/.}" || rm -f "$left"
  done
}
verb_health() { sweep; [ -w "$ROOT/sandboxes" ] || die 77; }
verb_remove() { # ID INC; path below the working directory
  at "$1"
  line; path=$LINE
  may "$2"
  path=$(unpack "$path"; printf x)
  path=@{path%x}
  case $path in "$SB/work/"*) ;; *) die 78 ;; esac
  remove "$path" || die 77
}

[ "$NONCE" = - ] || printf '\n%s\n' "$NONCE"
case $VERB in
  hello | create | find | state | list | ready | stop | start | extend | expire | over | destroy | health | remove | \
  supervise | spawn | follow | status | processes | kill | cancel | stdin | eof | resize | \
  try | serve | bridge) "verb_$VERB" "$@" ;;
  *) die 64 ;;
esac
`
