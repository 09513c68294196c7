import { equal, rejects } from '../../assert.ts'
import { hostFile } from '../../host-files.ts'
import type { Trial } from '../../trial.ts'
import { group } from '../../types.ts'

/**
 * Without isolation, a path outside is rejected. With isolation, it is a path inside the sandbox, where the file does
 * not exist.
 */
function refusal(t: Trial): ['path_outside'] | ['file_not_found'] {
  return t.provider.isolation === 'none' ? ['path_outside'] : ['file_not_found']
}

export const paths = group('paths stay inside', [
  {
    id: 'absolute-inside',
    name: 'An absolute path below the workdir is the same file as the relative one',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('file')
      await sandbox.files.writeFile(path, 'same')
      equal(await sandbox.files.readFile(`${sandbox.workdir}/${path}`, 'utf8'), 'same', 'content')
      equal(
        await sandbox.files.readFile(`./a/../${path}`.replace('a/../', ''), 'utf8'),
        'same',
        'content by a path with a dot',
      )
    },
  },
  {
    id: 'dots-inside',
    name: 'A path with .. that stays below the workdir works',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      await sandbox.files.writeFile(`${folder}/a/x`, 'x')
      await sandbox.files.mkdir(`${folder}/b`)
      equal(await sandbox.files.readFile(`${folder}/b/../a/./x`, 'utf8'), 'x', 'content')
    },
  },
  {
    id: 'absolute-outside',
    name: 'A file of this machine cannot be read by its absolute path',
    async run(t) {
      const { files } = await t.sandbox()
      const secret = await hostFile(t, 'host secret')
      await rejects(files.readFile(secret), refusal(t), 'readFile')
      await rejects(files.readStream(secret), refusal(t), 'readStream')
      await rejects(files.stat(secret), refusal(t), 'stat')
    },
  },
  {
    id: 'dots-outside',
    name: 'A file of this machine cannot be reached with ../',
    async run(t) {
      const { files } = await t.sandbox()
      const secret = await hostFile(t, 'host secret')
      await rejects(files.readFile(`${'../'.repeat(30)}${secret.slice(1)}`), refusal(t), 'readFile')
    },
  },
  {
    id: 'write-outside',
    name: 'No call writes, renames, removes or creates anything on this machine outside the sandbox',
    async run(t) {
      const sandbox = await t.create()
      const secret = await hostFile(t, 'host secret')
      const up = `${'../'.repeat(30)}${secret.slice(1)}`
      await sandbox.files.writeFile('mine', 'mine')
      for (const path of [secret, up]) {
        // Inside an isolated sandbox these are harmless; only changes on this machine count.
        const attempts = [
          sandbox.files.writeFile(path, 'overwritten'),
          sandbox.files.appendFile(path, 'more'),
          sandbox.files.rm(path, { recursive: true, force: true }),
          sandbox.files.mkdir(`${path}-dir`),
          sandbox.files.chmod(path, 0o777),
          sandbox.files.rename('mine', path),
        ]
        const codes = (await Promise.allSettled(attempts)).map((attempt) =>
          attempt.status === 'rejected' ? attempt.reason?.code : 'done',
        )
        if (t.provider.isolation === 'none')
          equal(
            codes,
            codes.map(() => 'path_outside'),
            'what the attempts were answered with',
          )
      }
      equal(await hostFile.read(secret), 'host secret', 'content of the file on this machine')
    },
  },
  {
    id: 'link-outside',
    name: 'A link does not lead out of the sandbox, neither as the last part of a path nor before it',
    async run(t) {
      const sandbox = await t.sandbox()
      const folder = await t.folder(sandbox)
      const secret = await hostFile(t, 'host secret')
      const parent = secret.slice(0, secret.lastIndexOf('/'))
      for (const [target, path] of [
        [secret, `${folder}/link`],
        [parent, `${folder}/dir`],
      ] as const) {
        // The provider may also refuse to create such a link.
        await sandbox.files
          .symlink(target, path)
          .catch((error) => equal(error?.code, 'path_outside', 'how symlink was refused'))
      }
      await rejects(
        sandbox.files.readFile(`${folder}/link`),
        [...refusal(t), 'file_not_found'],
        'reading through a link',
      )
      await rejects(
        sandbox.files.readFile(`${folder}/dir/${secret.slice(parent.length + 1)}`),
        [...refusal(t), 'file_not_found'],
        'reading below a link',
      )
      await sandbox.files.writeFile(`${folder}/link`, 'overwritten').catch(() => {})
      equal(await hostFile.read(secret), 'host secret', 'content of the file on this machine')
    },
  },
  {
    id: 'cwd-outside',
    name: 'A working directory on this machine outside the sandbox is rejected',
    async run(t) {
      const sandbox = await t.sandbox()
      const secret = await hostFile(t, 'x')
      const cwd = secret.slice(0, secret.lastIndexOf('/'))
      await rejects(
        t.run(sandbox, t.commands.exit(0), { cwd }),
        t.provider.isolation === 'none' ? 'path_outside' : 'cwd_not_found',
        'runCommand',
      )
    },
  },
])
