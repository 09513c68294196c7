import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { reasonToSkip } from '../isolators/oci/testing/bench.ts'
import { EngineProvider, imageStore } from './engine-provider.ts'

/** Runs on request only: each build takes a minute and downloads packages from this machine's mirror. */
const skipped = process.env.SANDKASTEN_IMAGE_BUILD_TESTS
  ? await reasonToSkip()
  : 'takes minutes, and mmdebstrap: SANDKASTEN_IMAGE_BUILD_TESTS=1 npm test'

const root = await mkdtemp(path.join(tmpdir(), 'sandkasten-build-'))
afterAll(() => rm(root, { recursive: true, force: true }))

describe.each([
  [
    'base',
    'git --version; curl --version; jq --version; rg --version',
    /git version[\s\S]*curl[\s\S]*jq-[\s\S]*ripgrep/,
  ],
  ['python', 'python3 -m venv v && v/bin/python -c "print(6*7)"; pip --version', /^42\npip/],
  ['node', 'node -p 6*7; npm --version', /^42\n\d+\./],
])('the recipe %s', (name, line, output) => {
  it('builds, and its sandboxes work', { timeout: 600_000 }, async ({ skip }) => {
    if (skipped) skip(skipped)
    const image = await imageStore({ root }).build(name)
    expect(image).toMatchObject({ name: `${name}:latest`, config: { workdir: '/workspace' } })
    const sandbox = await new EngineProvider({ isolator: 'oci', root }).create({ image: name })
    try {
      const { stdout } = await sandbox.runCommand({ cmd: 'bash', args: ['-c', line] })
      expect(stdout).toMatch(output)
      const found = await sandbox.runCommand({
        cmd: 'sh',
        args: [
          '-c',
          'ls /etc/apt/sources.list.d /etc/resolv.conf; whoami; cd ~ && pwd; ls /etc/apt/sources.list',
        ],
      })
      expect(found.stdout).toBe('/etc/resolv.conf\n\n/etc/apt/sources.list.d:\nsandbox\n/home/sandbox\n')
    } finally {
      await sandbox.destroy()
    }
  })
})
