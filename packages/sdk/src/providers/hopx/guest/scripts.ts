import { readable } from '../../../shared/guest/files.ts'
import { guestFolder } from '../../../shared/guest/place.ts'
import { script, why } from '../../../shared/guest/script.ts'

/** Makes the folder of our agent, and prints the working directory as base64: the vendor's, or the account's home. */
export const hello = script`
umask 077
mkdir -p ${guestFolder} && [ -O ${guestFolder} ] || exit 99
cd /workspace 2>/dev/null || cd 2>/dev/null || cd /
pwd | base64 -w0
`

/** PATH START LENGTH: a part of a file, as base64. Opens only regular files: a FIFO would block. */
export const page = script`
${readable}
[ -f "$1" ] || refuse invalid_argument
tail -c "+$(($2 + 1))" -- "$1" | head -c "$3" | base64 -w0
`

/** PATH STAGE PART NAME SIZE: takes an uploaded file as a part of a write, if it is complete. */
export const adopt = script`
${why}
_sk_size=$(wc -c <"${guestFolder}/$4") 2>/dev/null && [ "$((_sk_size))" = "$5" ] || refuse connection_lost
mv -f -- "${guestFolder}/$4" "@{1%/*}/$2/$3" || exit 1
`

/** PATH STAGE …: writes the data of the call as the only part. */
export const unpack = script`
printf %s "$SANDKASTEN_DATA" | base64 -d >"@{1%/*}/$2/0" || exit 1
unset SANDKASTEN_DATA
`

/** NAME SIZE PART…: joins uploaded files to one, if they are complete. */
export const join = script`
${why}
cd ${guestFolder} || exit 1
_sk_name=$1 _sk_size=$2
shift 2
cat -- "$@" >"$_sk_name" || exit 1
[ "$(($(wc -c <"$_sk_name")))" = "$_sk_size" ] || { rm -f -- "$_sk_name"; refuse connection_lost; }
rm -f -- "$@"
`
