import { hunt as hunting } from '../../../shared/guest/processes.ts'
import { script } from '../../../shared/guest/script.ts'

/** Signals for the vendor's terminals. They need sh and GNU grep. */

/** All descendants of a terminal's program inherit this variable, which identifies the process tree. */
export const markVariable = 'SANDKASTEN_PROCESS'

/** SIGNAL MARK: signals every process with the mark. Prints whether there was one. */
export const hunt = script`
${hunting}
hunt "$1" "$2"
printf %s "@{_sk_any:-none}"
`
