import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { LocalProvider } from '../providers/local/index.ts'
import { hostPrograms } from './host-programs.ts'

let root: string
beforeEach(() => {
  root = mkdtempSync(path.join(tmpdir(), 'programs-'))
})
afterEach(() => rmSync(root, { recursive: true, force: true }))

function program(folder: string, name: string, script: string): void {
  mkdirSync(path.join(root, folder), { recursive: true })
  writeFileSync(path.join(root, folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 })
}

describe('hostPrograms', () => {
  it('asks the first program of the search path that sandboxes see', async () => {
    program('a', 'node', 'echo v22.1.0')
    program('b', 'node', 'echo v24.3.0')
    program('b', 'python3', 'echo Python 3.13.1')
    mkdirSync(path.join(root, 'links'))
    symlinkSync(path.join(root, 'a/node'), path.join(root, 'links/node'))
    const [a, b, links] = ['a', 'b', 'links'].map((name) => path.join(root, name)) as [string, string, string]
    expect(await hostPrograms({ path: `${a}:${b}` })).toEqual({ node: '22.1.0', python: '3.13.1' })
    const isVisible = (file: string) => !file.startsWith(`${a}/`)
    expect(await hostPrograms({ path: `${links}:${a}:${b}`, isVisible })).toMatchObject({ node: '24.3.0' })
    expect(await hostPrograms({ path: path.join(root, 'none') })).toEqual({})
  })

  it('does not believe a program that fails or prints something else', async () => {
    program('c', 'node', 'echo v24.3.0; exit 1')
    program('c', 'python3', 'echo Python three')
    expect(await hostPrograms({ path: path.join(root, 'c') })).toEqual({})
  })
})

it('a local sandbox of a runtime has that program; another runtime names what there is', async () => {
  const provider = new LocalProvider({ root, acceptNoIsolation: true })
  const runtime = `node${process.versions.node.split('.')[0]}`
  const sandbox = await provider.create({ runtime })
  const { stdout } = await sandbox.runCommand({ cmd: 'node', args: ['--version'] })
  expect(stdout).toMatch(`v${runtime.slice(4)}.`)
  await sandbox.destroy()
  const failure = await provider.create({ runtime: 'node4' }).catch((error: unknown) => error)
  expect(failure).toMatchObject({
    code: 'unsupported',
    details: { option: 'runtime', available: expect.arrayContaining([runtime]) },
    hint: expect.stringContaining(runtime),
  })
  expect(await provider.list()).toEqual([])
})
