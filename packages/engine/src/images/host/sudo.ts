/**
 * `sudo` for sandboxes whose user is root, so that instructions written for other users work. It gives no rights: with
 * no-new-privileges nothing can. For root it only runs the command.
 */
export const FAKE_SUDO = `#!/bin/sh
# Runs the command as it is: commands of this sandbox are root already.
[ "$(id -u)" = 0 ] || { echo 'sudo: only root may use it in this sandbox' >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    --) shift; break ;;
    -u|--user) [ "\${2-}" = root ] || [ "\${2-}" = 0 ] || { echo "sudo: cannot run as \${2-}; use: setpriv --reuid=\${2-} --clear-groups" >&2; exit 1; }; shift 2 ;;
    -[EHnSkb]|-[EHn][EHn]*|--preserve-env*|--non-interactive|--set-home) shift ;;
    -i|-s) shift; [ $# -gt 0 ] || exec "\${SHELL:-/bin/sh}"; break ;;
    -v|-K) exit 0 ;;
    -*) echo "sudo: $1 is not supported in this sandbox" >&2; exit 1 ;;
    *) break ;;
  esac
done
[ $# -gt 0 ] || { echo 'usage: sudo command …' >&2; exit 1; }
exec env -- "$@"
`
