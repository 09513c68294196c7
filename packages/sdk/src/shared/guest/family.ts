import { script } from './script.ts'

/**
 * Finds and signals the processes of a program: members of its session, carriers of its mark, and the descendants of
 * both. A program may change its environment (`env -i`) or overwrite it with its title. A mark ends with a slash, so
 * that no id is a prefix of another. `$ROOT/grep-sees` exists if `grep` reads beyond a NUL.
 */
export const family = script`
# Lists processes with a mark in their environment.
carriers() {
  if [ -e "$ROOT/grep-sees" ]; then
    grep -lF -- "$1" /proc/[0-9]*/environ 2>/dev/null
  else
    for file in /proc/[0-9]*/environ; do [ -r "$file" ] && has_mark "$1" "$file" && echo "$file"; done
  fi
}
marked() {
  carriers "$1" | while IFS=/ read -r _ _ pid _; do
    [ "$pid" = $$ ] || echo "$pid"
  done
}
# BusyBox’s grep stops at the first NUL.
has_mark() { { tr '\0' '\n' <"$2" | grep -qF -- "$1"; } 2>/dev/null; }
# The sessions of programs. A session id is not reused while a process of the session exists.
sessions() { # folders of programs
  for folder; do
    pid= since=
    read -r pid since 2>/dev/null <"$folder/pid"
    [ -n "$since" ] || continue
    ! stat_of "$pid" || [ "$started" = "$since" ] || continue
    printf '%s ' "$pid"
  done
  echo
}
family() { # mark, folders of programs
  mark=$1
  shift
  { sessions "$@"; carriers "$mark"; cat /proc/[0-9]*/stat 2>/dev/null; } | awk -v self=$$ '
    NR == 1 { for (i = 1; i <= NF; i++) session[$i] = 1; next }
    /^\/proc/ { split($0, part, "/"); ours[part[3]] = 1; next }
    {
      pid = $1
      if (!sub(/^.*\) /, "") || $1 == "Z" || pid == self) next
      all[++n] = pid
      parent[pid] = $2
      if (($3 in session) || ($4 in session)) ours[pid] = 1
    }
    END {
      delete ours[self]
      do {
        more = 0
        for (i = 1; i <= n; i++) if (!(all[i] in ours) && (parent[all[i]] in ours)) more = ours[all[i]] = 1
      } while (more)
      for (i = 1; i <= n; i++) if (all[i] in ours) print all[i]
    }'
}
signal() { # signal, then as family
  name=$1
  shift
  for pid in $(family "$@"); do kill -s "$name" "$pid" 2>/dev/null; done
}
# Repeats until two rounds find nothing, because a process in the middle of an exec has no environment. Stops the processes
# first, so that they cannot fork, and kills them when two rounds find the same ones. Every fifth round kills regardless.
extinguish() { # as family
  quiet=0 round=0 still=
  while [ $quiet -lt 2 ] && [ $round -lt 200 ]; do
    found=$(family "$@")
    round=$((round + 1)) word=KILL
    if [ -z "$found" ]; then quiet=$((quiet + 1))
    else
      quiet=0
      [ "$found" = "$still" ] || [ $((round % 5)) -eq 0 ] || word=STOP
      for pid in $found; do kill -s $word "$pid" 2>/dev/null; done
    fi
    still=$found
    [ $quiet -ge 2 ] || [ $word = STOP ] || sleep 0.02
  done
}
`
