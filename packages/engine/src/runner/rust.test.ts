import { chmodSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { runBuild } from './build-runner.ts'
import { findRust, isAtLeast } from './rust.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-rust-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Creates a folder with a cargo and a rustc of these versions. */
function rust(name: string, cargo: string, rustc = cargo): string {
  const place = path.join(folder, name)
  mkdirSync(place)
  for (const [program, version] of Object.entries({ cargo, rustc }))
    script(
      path.join(place, program),
      version === '' ? 'exit 1' : `echo "${program} ${version} (abc 2026-01-01)"`,
    )
  return place
}

function script(file: string, line: string): void {
  writeFileSync(file, `#!/bin/sh\n${line}\n`)
  chmodSync(file, 0o755)
}

const old = rust('old', '1.63.0')
const broken = rust('broken', '')
const halfOld = rust('half-old', '1.96.0', '1.63.0')
const fresh = rust('fresh', '1.96.0')
const search = (onPath: string[], usualFolders: string[] = []) =>
  findRust({ env: { PATH: [...onPath, '/usr/bin', '/bin'].join(':') }, usualFolders })

describe('the search for Rust', () => {
  it('skips an older cargo and a cargo that does not run', async () => {
    const again = path.join(folder, 'again')
    symlinkSync(old, again)
    expect(await search([old, again, broken, halfOld, fresh])).toMatchObject({
      rust: { folder: fresh, version: '1.96.0' },
      unusable: [`${old} (1.63.0)`, `${broken} (does not run)`, `${halfOld} (1.63.0)`],
    })
  })

  it('searches the folders of Debian and rustup after PATH', async () => {
    expect((await search([old], [fresh])).rust).toEqual({ folder: fresh, version: '1.96.0' })
  })

  it.each([
    ['1.88.0', '1.88', true],
    ['1.87.9', '1.88', false],
    ['1.100.0', '1.88', true],
    ['2.0.0', '1.88', true],
    ['1.88.0+dfsg1-1~deb12u2', '1.88', true],
    ['1.85.0+dfsg3-1~deb12u3', '1.88', false],
    ['unknown', '1.88', false],
  ])('%s is enough for %s: %s', (version, needed, enough) => {
    expect(isAtLeast(version, needed)).toBe(enough)
  })
})

describe('a build that fails', () => {
  it('names toolchains that are too old, and the needed version', async () => {
    const env = { PATH: `${old}:/nowhere` }
    await expect(runBuild({ env, usualFolders: [] })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(/Rust 1\.\d+ or newer.*old \(1\.63\.0\)/),
    })
  })

  it('shows cargo’s own error', async ({ skip }) => {
    if (!(await findRust()).rust) skip('needs Rust')
    const crate = path.join(folder, 'crate')
    mkdirSync(path.join(crate, 'src'), { recursive: true })
    writeFileSync(
      path.join(crate, 'Cargo.toml'),
      '[package]\nname = "x"\nversion = "0.0.0"\nedition = "2024"\n',
    )
    writeFileSync(path.join(crate, 'src/main.rs'), 'fn main() { no_such_function() }\n')
    const build = path.join(crate, 'build.sh')
    script(build, `cd "${crate}" && cargo build --quiet >&2`)
    await expect(runBuild({ script: build })).rejects.toMatchObject({
      code: 'unavailable',
      message: expect.stringMatching(
        /cargo 1\.\d+\.\d+ failed[\s\S]*cannot find function `no_such_function`/,
      ),
    })
  })
})
