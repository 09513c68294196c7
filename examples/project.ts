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

// What is in the working tree travels: committed or not, ignored files stay. A second upload sends what changed.
const { sent } = await uploadProject(sandbox, { projectDir })
const again = await uploadProject(sandbox, { projectDir })
console.log(sent, again.sent, again.unchanged)

// Somebody works in there.
await sandbox.writeFile('poem.md', 'roses are red\n')

// The way back: a patch, or a branch. Never over local work.
const { patch, conflicts } = await pullChanges(sandbox, { projectDir, as: 'patch' })
console.log(patch?.includes('+roses are red'), conflicts.length)
await sandbox.destroy()
rmSync(projectDir, { recursive: true })
