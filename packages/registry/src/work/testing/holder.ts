/** A process that uses a sandbox until it is killed, for tests of holds. Arguments: the database as JSON, and the id. */
import { BeatWatch } from '../../leases/index.ts'
import { openStore } from '../../store/index.ts'
import { Uses } from '../uses.ts'

const store = await openStore(JSON.parse(process.argv[2]!))
const uses = new Uses(store.holds, new BeatWatch(), Date.now)
const leave = await uses.begin({ sandboxId: process.argv[3]!, purpose: 'exec npm test' }, 1)
process.send!(leave ? 'held' : 'refused')
setInterval(() => {}, 1_000)
