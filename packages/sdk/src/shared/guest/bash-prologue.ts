/**
 * The setup of a bash that keeps its state. A trap can `return` out of `source`, which ends a command that survives
 * the death of its programs. `$?` is the exit code of the previous command, as in any shell.
 */
export const bashPrologue = `shopt -s expand_aliases
trap 'return 130 2>/dev/null' USR1
__sandkasten_status() { return "$1"; }
`
