import { equal, rejects, sameBytes } from '../../assert.ts'
import { hostFile } from '../../host-files.ts'
import { group } from '../../types.ts'

export const transfer = group('upload and download', [
  {
    id: 'upload',
    name: 'uploadFile copies a local file into the sandbox, with its mode',
    async run(t) {
      const sandbox = await t.sandbox()
      const bytes = Uint8Array.from({ length: 300_000 }, (_, index) => (index * 13) & 0xff)
      const local = await hostFile(t, bytes)
      await hostFile.chmod(local, 0o755)
      const path = `${t.unique('up')}/made/on the way`
      await sandbox.uploadFile(local, path)
      sameBytes(await sandbox.readFile(path), bytes, 'content')
      equal(((await sandbox.files.stat(path)).mode ?? 0o755).toString(8), '755', 'mode')
    },
  },
  {
    id: 'upload-read-only',
    name: 'uploadFile with readOnly gives the same file with its mode, whether it is shared or copied',
    async run(t) {
      const sandbox = await t.sandbox()
      const content = `#!/bin/sh\necho shared\nexit\n${'#'.repeat(5 * 1024 * 1024)}`
      const local = await hostFile(t, content)
      await hostFile.chmod(local, 0o755)
      const path = `${t.unique('up')}/program`
      await sandbox.uploadFile(local, path, { readOnly: true })
      equal((((await sandbox.files.stat(path)).mode ?? 0o755) & 0o555).toString(8), '555', 'mode')
      sameBytes(await sandbox.readFile(path), new TextEncoder().encode(content), 'content')
    },
  },
  {
    id: 'download',
    name: 'downloadFile copies a file of the sandbox to this machine completely',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('down')
      await sandbox.writeFile(path, 'from the sandbox')
      const local = await hostFile(t, 'old')
      await sandbox.downloadFile(path, local)
      equal(await hostFile.read(local), 'from the sandbox', 'content')
      equal((await hostFile.names(local)).length, 1, 'number of files in the local folder')
    },
  },
  {
    id: 'upload-missing',
    name: 'Uploading a missing file throws file_not_found, and creates nothing in the sandbox',
    async run(t) {
      const sandbox = await t.sandbox()
      const path = t.unique('up')
      const local = await hostFile(t, '')
      await rejects(sandbox.uploadFile(`${local}-none`, path), 'file_not_found', 'uploadFile')
      equal(await sandbox.files.exists(path), false, 'exists()')
    },
  },
  {
    id: 'upload-folder',
    name: 'Uploading a folder as a file throws is_a_directory',
    async run(t) {
      const local = await hostFile(t, '')
      await rejects(
        (await t.sandbox()).uploadFile(local.slice(0, local.lastIndexOf('/')), t.unique('up')),
        'is_a_directory',
        'uploadFile',
      )
    },
  },
  {
    id: 'download-missing',
    name: 'Downloading a missing file throws file_not_found, and keeps the local file',
    async run(t) {
      const local = await hostFile(t, 'old')
      await rejects((await t.sandbox()).downloadFile('no/such/file', local), 'file_not_found', 'downloadFile')
      equal(
        [await hostFile.read(local), (await hostFile.names(local)).length],
        ['old', 1],
        'content, and number of files beside it',
      )
    },
  },
])
