import { script, why } from './script.ts'

/**
 * File operations that vendors have no call for. Paths are absolute. On failure a script exits with 41 and prints an
 * error code of our table.
 */

const has = script`
has() { [ -e "$1" ] || [ -L "$1" ]; }
`

/** PATH FOLLOW|-: „rawmode size mtime“. */
export const stat = script`
${why}
if [ "$2" = - ]; then set -- "$1" -c; else set -- "$1" -L -c; fi
_sk_p=$1
shift
# Retry: the file may have appeared meanwhile. An existing file that stat refuses is in a folder without permission.
stat "$@" '%f %s %Y' -- "$_sk_p" 2>/dev/null && exit 0
[ ! -e "$_sk_p" ] || stat "$@" '%f %s %Y' -- "$_sk_p" 2>/dev/null || why "$_sk_p"
[ -e "$_sk_p" ] || why "$_sk_p"
`

/** PATH: checks that it is a readable file. */
export const readable = script`
${why}
[ ! -d "$1" ] || refuse is_a_directory
[ -r "$1" ] || { [ -e "$1" ] && [ -r "$1" ]; } || why "$1"
`

/** PATH DEPTH|-: entries, as base64 of „mode size mtime type path NUL“. */
export const list = script`
${why}
[ -d "$1" ] || { [ ! -e "$1" ] || refuse not_a_directory; why "$1"; }
[ -r "$1" ] && cd -- "$1" 2>/dev/null || refuse permission_denied
if [ "$2" = - ]; then set -- ; else set -- -maxdepth "$2"; fi
find . -mindepth 1 "$@" -printf '%m %s %T@ %y %P\0' 2>/dev/null | base64 -w0
`

/** PATH RECURSIVE|- MODE|- */
export const mkdir = script`
${why}
if [ "$2" = - ]; then
  mkdir -- "$1" 2>/dev/null || why "$1" make
else
  [ -d "$1" ] || mkdir -p -- "$1" 2>/dev/null || why "$1" make
fi
[ "$3" = - ] || chmod "$3" -- "$1"
`

/** FROM TO */
export const rename = script`
${why}
${has}
has "$1" || why "$1"
mv -f -T -- "$1" "$2" 2>/dev/null && exit 0
if [ -d "$2" ] && [ ! -L "$2" ]; then
  [ -d "$1" ] || refuse is_a_directory
  refuse directory_not_empty
fi
if [ -d "$1" ] && [ -e "$2" ]; then refuse not_a_directory; fi
why "$2" make
`

/** PATH RECURSIVE|- FORCE|- */
export const rm = script`
${why}
${has}
has "$1" || { [ "$3" = - ] && why "$1"; exit 0; }
if [ -d "$1" ] && [ ! -L "$1" ] && [ "$2" = - ]; then refuse is_a_directory; fi
rm -rf -- "$1" 2>/dev/null
has "$1" && refuse permission_denied
exit 0
`

/** PATH MODE */
export const chmod = script`
${why}
chmod "$2" -- "$1" 2>/dev/null || why "$1"
`

/** TARGET PATH */
export const symlink = script`
${why}
ln -s -T -- "$1" "$2" 2>/dev/null || why "$2" make
`

/** PATH: the target, as base64. */
export const readlink = script`
${why}
${has}
[ -L "$1" ] || { has "$1" && refuse invalid_argument; why "$1"; }
readlink -n -- "$1" | base64 -w0
`

/**
 * PATH STAGE: prints the final path of a write, with links resolved, as base64. Creates the parents, and a staging
 * folder next to the file.
 */
export const place = script`
${why}
_sk_p=$1
if [ -L "$_sk_p" ]; then
  _sk_p=$(readlink -f -- "$_sk_p" && echo x) || why "$1"
  _sk_p=@{_sk_p%?x}
fi
[ ! -d "$_sk_p" ] || refuse is_a_directory
_sk_dir=@{_sk_p%/*}
[ -d "@{_sk_dir:-/}" ] || mkdir -p -- "$_sk_dir" 2>/dev/null || why "$_sk_dir/x" make
_sk_dir=$(cd -P -- "@{_sk_dir:-/}" && pwd -P && echo x) || refuse permission_denied
_sk_dir=@{_sk_dir%?x}
mkdir -m 700 "@{_sk_dir%/}/$2" 2>/dev/null || refuse permission_denied
printf %s "@{_sk_dir%/}/@{_sk_p##*/}" | base64 -w0
`

/** PATH STAGE MODE|- APPEND|- PARTS: concatenates the parts into the file, or appends them. */
export const commit = script`
_sk_dir=@{1%/*}/$2
cd -- "$_sk_dir" || exit 1
: >all
_sk_n=0
while [ "$_sk_n" -lt "$5" ]; do
  if [ "$_sk_n" = 0 ]; then mv -f 0 all; else cat "$_sk_n" >>all && rm -f "$_sk_n"; fi || exit 1
  _sk_n=$((_sk_n + 1))
done
_sk_mode=$3
[ "$_sk_mode" != - ] || _sk_mode=$(stat -c %a -- "$1" 2>/dev/null) || _sk_mode=644
if [ "$4" != - ] && [ -e "$1" ]; then
  cat all >>"$1" || exit 1
  [ "$3" = - ] || chmod "$3" -- "$1"
else
  chmod "$_sk_mode" all && mv -f -T -- all "$1" || exit 1
fi
cd / && rm -rf -- "$_sk_dir"
`

/** PATH STAGE: removes the staging folder. */
export const forget = script`
rm -rf -- "@{1%/*}/$2"
`
