/** A shell script in a template literal. Write `@{` for the shell's `${`. */
export function script(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw(parts, ...values)
    .replaceAll('@{', '${')
    .trim()
}

/**
 * A script that refuses exits with this code, which no other program of ours uses, and prints an error code of our
 * table to stdout.
 */
export const refused = 41

/**
 * `why PATH` determines why a path cannot be used, prints the error code and exits. It examines the path because
 * messages of programs differ between systems and languages.
 */
export const why = script`
refuse() { printf %s "$1"; exit ${String(refused)}; }
why() {
  _sk_d=$1
  while [ "$_sk_d" != / ] && [ -n "$_sk_d" ]; do
    _sk_up=@{_sk_d%/*}
    [ -n "$_sk_up" ] || _sk_up=/
    if [ -d "$_sk_up" ]; then
      [ -x "$_sk_up" ] || refuse permission_denied
      break
    fi
    if [ -e "$_sk_up" ]; then refuse not_a_directory; fi
    _sk_d=$_sk_up
  done
  if [ -e "$1" ] || [ -L "$1" ]; then
    if [ "@{2-}" = make ]; then refuse file_exists; fi
    if [ -e "$1" ]; then refuse permission_denied; fi
  fi
  if [ "@{2-}" = make ] && [ "$_sk_d" = "$1" ]; then refuse permission_denied; fi
  refuse file_not_found
}
`
