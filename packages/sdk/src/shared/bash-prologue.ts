/**
 * What a bash that keeps its state is told first. A trap can `return` out of `source`, which is how a command is ended that will not end by
 * having its programs killed; and `$?` is what the command before ended with, as in any shell.
 */
export const bashPrologue = `shopt -s expand_aliases
trap 'return 130 2>/dev/null' USR1
__sandkasten_status() { return "$1"; }
`
