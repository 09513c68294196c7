import { hunt as hunting } from '../../../shared/guest/processes.ts'
import { script } from '../../../shared/guest/script.ts'

/** Scripts for features that E2B's daemon lacks. They need sh, and GNU grep for signals. */

/** All descendants of a program inherit this variable, which identifies the process tree. */
export const markVariable = 'SANDKASTEN_PROCESS'

/**
 * NONCE CWD CMD ARGS…: replaces itself with the program, after it has reported on stderr that it will, or why it cannot. The
 * vendor's daemon distinguishes a missing program from exit code 127 only by text, or not at all.
 */
export const start = script`
_sk_nonce=$1 _sk_cwd=$2
shift 2
_sk_say() { printf '%s %s\n' "$_sk_nonce" "$1" >&2; }
cd -- "$_sk_cwd" 2>/dev/null || {
  if [ -d "$_sk_cwd" ]; then _sk_say permission_denied; else _sk_say cwd_not_found; fi
  exit 0
}
case $1 in
  */*)
    if [ ! -e "$1" ]; then _sk_say command_not_found; exit 0; fi
    if [ -d "$1" ] || [ ! -x "$1" ]; then _sk_say permission_denied; exit 0; fi ;;
  *)
    _sk_found=
    set -f
    IFS=:
    for _sk_dir in @{PATH:-/usr/local/bin:/usr/bin:/bin}; do
      if [ -f "@{_sk_dir:-.}/$1" ] && [ -x "@{_sk_dir:-.}/$1" ]; then _sk_found=1; break; fi
    done
    unset IFS
    set +f
    if [ -z "$_sk_found" ]; then _sk_say command_not_found; exit 0; fi ;;
esac
_sk_say "started $$"
exec "$@"
`

/** SIGNAL MARK: signals every process with the mark. Prints whether there was one. */
export const hunt = script`
${hunting}
hunt "$1" "$2"
printf %s "@{_sk_any:-none}"
`
