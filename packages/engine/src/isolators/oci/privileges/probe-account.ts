import { spawn } from 'node:child_process'
import { readText } from '../../../read-files.ts'
import type { ProbeResult } from '../../isolator.ts'
import type { Runtime } from '../launch/runtime.ts'
import { shimSetup } from '../launch/shim-task.ts'
import { layoutOfThisMachine, missingControllers } from '../limits/cgroups.ts'
import { thisAccount } from './account.ts'
import type { Privileges } from './privileges.ts'

/**
 * Tests whether an ordinary account can make sandboxes here, by making everything but the sandbox. Removes all of it.
 */
export async function probeAccount(
  options: { readonly runner: string; readonly runtime: Runtime; readonly privileges: Privileges },
  detail: string,
): Promise<ProbeResult> {
  const { privileges } = options
  const layout = privileges.layout()
  // Over /tmp, in a mount namespace that ends with the trial.
  const setup = shimSetup({
    runtime: options.runtime,
    runner: options.runner,
    stage: '/tmp',
    layout: { v1: {} },
    machine: layoutOfThisMachine(),
    cgroupParent: '',
    privileges,
  })
  const failed = await trial(privileges.command(options.runner, options.runner, 'shim'), setup)
  if (failed !== undefined) return { ok: false, ...explain(failed) }
  const ids = privileges.kind === 'range' ? 'a range of ids' : 'its own id only'
  const groups = layout.v2
    ? `cgroup v2 with ${layout.v2.controllers.join(', ') || 'no controller'}`
    : 'no cgroup'
  const account = thisAccount()
  return {
    ok: true,
    detail: `${detail}, as the account ${account.name}: ${ids}, ${groups}`,
    weaker: privileges.weaker(layout),
    better: [
      ...account.lacks.map(({ fix }) => `As root: ${fix}`),
      ...(missingControllers(layout).length > 0 ? [delegation()] : []),
      'Or run the engine as root.',
    ],
  }
}

/** Returns the error output. */
function trial(
  [program, ...args]: readonly [string, ...string[]],
  setup: object,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const child = spawn(program, args, { stdio: 'pipe', env: {}, cwd: '/' })
    let [out, err] = ['', '']
    child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text))
    child.on('error', (error) => resolve(error.message))
    // The shim, a grandchild, keeps the streams open until it exits.
    child.on('close', (code) => {
      if (code === 0 && out === '') resolve(undefined)
      else resolve(/"error":"((?:[^"\\]|\\.)*)"/.exec(out)?.[1] ?? (err.trim() || `status ${code}`))
    })
    child.stdin.on('error', () => {})
    const body = Buffer.from(JSON.stringify(setup))
    const length = Buffer.alloc(4)
    length.writeUInt32BE(body.length)
    child.stdin.end(Buffer.concat([length, body]))
  })
}

/** A kernel that refuses user namespaces does not say why. Finds the setting that forbids them. */
const SWITCHES = [
  { file: 'kernel/unprivileged_userns_clone', off: '0', fix: 'sysctl -w kernel.unprivileged_userns_clone=1' },
  {
    file: 'kernel/apparmor_restrict_unprivileged_userns',
    off: '1',
    fix: 'sysctl -w kernel.apparmor_restrict_unprivileged_userns=0',
  },
  { file: 'user/max_user_namespaces', off: '0', fix: 'sysctl -w user.max_user_namespaces=10000' },
] as const

export function explain(
  failed: string,
  read: (file: string) => string | undefined = (file) => readText(`/proc/sys/${file}`),
): { reason: string; fix: string } {
  const off = SWITCHES.find(({ file, off }) => read(file)?.trim() === off)
  if (off)
    return {
      reason: `user namespaces are disabled for ordinary accounts (${off.file})`,
      fix: `Run, as root: ${off.fix}`,
    }
  if (/^newuidmap|^newgidmap|range could not be mapped/m.test(failed))
    return {
      reason: `the account’s range of ids cannot be mapped: ${failed}`,
      fix: 'As root: apt-get install --reinstall uidmap, and check /etc/subuid and /etc/subgid.',
    }
  return {
    reason: `this account cannot create a sandbox: ${failed}`,
    fix: 'Run the engine outside of other containers, or as root: sudo -E env "PATH=$PATH" …',
  }
}

/** systemd delegates the controllers of `user@.service` to a user's services: memory and pids by default. */
function delegation(): string {
  const boot =
    layoutOfThisMachine().v1.memory === undefined ? '' : 'boot with systemd.unified_cgroup_hierarchy=1, then '
  return `For limits by control groups: ${boot}start it with systemd-run --user --scope -p Delegate=yes …; for cpu too, as root: systemctl edit user@.service, with [Service] Delegate=cpu memory pids`
}
