import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { configOf } from '../../src/config/index.ts'
import { startTestDaemon, type TestDaemon } from '../../src/testing/daemon.ts'

const read = (page: string) =>
  readFileSync(path.resolve(import.meta.dirname, '../../../../docs', page), 'utf8')
const document = read('daemon.md')

describe('docs/daemon.md', () => {
  let daemon: TestDaemon
  beforeAll(async () => {
    daemon = await startTestDaemon()
  })
  afterAll(() => daemon?.stop())

  it('shows curl lines that work, one after another', async () => {
    const blocks = [...document.matchAll(/<!-- run -->\n```sh\n(.*?)```/gs)].map(([, code]) => code!)
    expect(blocks).toHaveLength(3)
    // Print a newline after each response. -f ends the script when a request is refused.
    const script = `set -euo pipefail; curl() { command curl -f "$@"; echo; }\n${blocks.join('\n')}`
    const env = { PATH: process.env.PATH, SANDKASTEN_URL: daemon.daemon.url, SANDKASTEN_API_KEY: daemon.key }
    const { stdout } = await promisify(execFile)('bash', ['-c', script], { env })
    expect(stdout).toMatch(/"cwd":"[^"]*\/app","output":"hello world from app\\n","truncated":false/)
    expect(stdout).toMatch(/"stdout":"","stderr":"ls: /)
    expect(stdout).toContain(`"content_base64":"${Buffer.from('one line').toString('base64')}"`)
    expect(stdout).toContain(readFileSync('/etc/hostname', 'utf8'))
    expect(stdout).toMatch(/event: stdout\nid: 1\ndata: \{"seq":1,"text":"one\\n/)
    expect(stdout).toContain('"exec_id":"job-1","kind":"run","status":"done"')
    expect(stdout).toContain('{"signalled":true}')
    expect(stdout).toContain('"status":"stopped"')
    expect(stdout).toContain('"incarnation":2')
    expect(stdout).toContain('"destroyed":true')
  })

  it('shows a valid configuration', () => {
    const [, text] = /```yaml\n(.*?)```/s.exec(read('configuration.md'))!
    const given = parse(
      text!.replaceAll('"sk-…"', '"sk-0123456789"').replace('postgres://…', 'postgres://x/y'),
    )
    expect(configOf(given)).toMatchObject({ session_ttl_seconds: 1800, defaults: { memory_mb: 512 } })
    // All of these are defaults, or would change nothing.
    const { defaults, max } = configOf({})
    expect(configOf(given).defaults).toEqual(defaults)
    expect(configOf(given).max).toEqual(max)
  })
})
