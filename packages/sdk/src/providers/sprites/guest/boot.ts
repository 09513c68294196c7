import { script } from '../../../shared/guest/script.ts'

/**
 * The only command that we start in a sprite. The vendor puts a command's arguments and variables into the URL of a WebSocket,
 * which is short and appears in logs. So everything else comes on stdin, as lines:
 *
 *     ` WORD`         an argument
 *     `+BASE64`       an argument that contains a newline; the first argument is the script to run
 *     `@BASE64`       the agent
 *     `NAME=VALUE`    a variable
 *     `.`             the end; the rest of stdin belongs to the script
 *
 * A connection that breaks before the end starts nothing.
 *
 * ID MARK NONCE: the sprite for which the caller has this name. A sprite with the same name but another id has no file `is-ID`, so
 * the call exits with 96. The caller then checks the id, and repeats the call with MARK `mark`.
 * The response begins with a line NONCE, so one that arrives twice is noticed.
 */
export const boot = script`
_sk_f=/tmp/.sandkasten/is-$1 _sk_m=$2 _sk_n=$3 _sk_o=
set --
while IFS= read -r _sk_l; do
  case $_sk_l in
    .) _sk_o=1; break ;;
    ' '*) set -- "$@" "@{_sk_l# }" ;;
    +*) _sk_l=$(printf %s "@{_sk_l#+}" | base64 -d && echo x) || exit 97; set -- "$@" "@{_sk_l%x}" ;;
    @*) SANDKASTEN_AGENT=$(printf %s "@{_sk_l#@}" | base64 -d) || exit 97; export SANDKASTEN_AGENT ;;
    *=*) export "$_sk_l" ;;
  esac
done
[ -n "$_sk_o" ] || exit 97
if [ "$_sk_m" = mark ]; then
  (umask 077; mkdir -p /tmp/.sandkasten && [ -O /tmp/.sandkasten ] && : >"$_sk_f") || exit 99
else
  [ -O /tmp/.sandkasten ] && [ -e "$_sk_f" ] || exit 96
fi
printf '%s\n' "$_sk_n"
_sk_l=$1
shift
unset _sk_f _sk_m _sk_n _sk_o
eval "$_sk_l"
`

/** The exit code if the mark is missing. */
export const unmarked = 96

export interface BootInput {
  readonly script: string
  readonly args: readonly string[]
  readonly agent?: string | undefined
  readonly variables?: Readonly<Record<string, string>>
}

export function bootLines({ script, args, agent, variables = {} }: BootInput): Uint8Array {
  const lines = [
    `+${base64(script)}`,
    ...args.map((arg) => (arg.includes('\n') ? `+${base64(arg)}` : ` ${arg}`)),
    ...(agent === undefined ? [] : [`@${base64(agent)}`]),
    ...Object.entries(variables).map(([name, value]) => `${name}=${value}`),
    '.',
  ]
  return new TextEncoder().encode(`${lines.join('\n')}\n`)
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
