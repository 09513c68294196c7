/** A shell script in a template: `@{` stands for the shell's `${`, which a template would take for its own. */
export function script(parts: TemplateStringsArray, ...values: readonly string[]): string {
  return String.raw(parts, ...values)
    .replaceAll('@{', '${')
    .trim()
}

/**
 * Ends with one of these when something is not as asked for: an exit code that no program of ours has otherwise, and on stdout the code of
 * our error table.
 */
export const refused = 41

/**
 * Why a path cannot be used, found by looking: messages of programs differ between systems and languages.
 * `why PATH` says the code of our table and ends the script.
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
