import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { LocalProvider } from '@sandkasten/sdk/local'
import { pullChanges, uploadProject } from '@sandkasten/sdk/recipes'

const projectDir = mkdtempSync(path.join(tmpdir(), 'sandkasten-example-'))
execFileSync('git', ['init', '--quiet', projectDir])
writeFileSync(path.join(projectDir, 'todo.md'), 'write a poem\n')

const sandbox = await new LocalProvider({ acceptNoIsolation: true }).create()

// Uploads the working tree, including uncommitted files, without ignored files. A second upload sends only changes.
const { sent } = await uploadProject(sandbox, { projectDir })
const again = await uploadProject(sandbox, { projectDir })
console.log(sent, again.sent, again.unchanged)

// The agent works in the sandbox.
await sandbox.writeFile('poem.md', 'roses are red\n')

// Get the changes as a patch or as a branch. Your working tree is not touched.
const { patch, conflicts } = await pullChanges(sandbox, { projectDir, as: 'patch' })
console.log(patch?.includes('+roses are red'), conflicts.length)
await sandbox.destroy()
rmSync(projectDir, { recursive: true })
