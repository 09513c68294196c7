import { chownSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { hasProgram } from '../../../packages/engine/src/isolators/oci/launch/find-program.ts'
import { reasonToSkip } from '../../../packages/engine/src/isolators/oci/testing/bench.ts'
import {
  type TemporaryAccount,
  temporaryAccount,
} from '../../../packages/engine/src/isolators/oci/testing/temporary-account.ts'
import { locateGateway, locateRunner } from '../../../packages/engine/src/provider/locate-runner.ts'
import { waysOutOf } from './kit.ts'

const checkout = fileURLToPath(new URL('../../../', import.meta.url))
let account: TemporaryAccount | undefined
let programs: Record<string, string>

/** The account sees the checkout at another path. */
const inside = (path: string) => path.replace(checkout, `${join(account!.home, '../checkout')}/`)

waysOutOf({
  name: 'oci as an ordinary account',
  missing:
    (await reasonToSkip()) ??
    (hasProgram('newuidmap') && hasProgram('useradd')
      ? undefined
      : 'needs uidmap and useradd: apt-get install uidmap passwd'),
  hasRoot: false,
  async options() {
    account = await temporaryAccount({ checkout, range: true })
    programs = {
      SANDKASTEN_RUNNER: inside(await locateRunner()),
      SANDKASTEN_GATEWAY: inside(await locateGateway()),
    }
    const { uid, home } = account
    const [root, runFolder] = [join(home, 'engine'), join(home, 'run')]
    for (const folder of [root, runFolder]) {
      mkdirSync(folder)
      chownSync(folder, uid, uid)
    }
    return { root, oci: { runFolder } }
  },
  asAccount: (command) =>
    account!.commandLine(command.map(inside), { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', ...programs }),
  stop: async () => account?.[Symbol.asyncDispose](),
})
