import { describe, expect, it } from 'vitest'
import { errnoHint, refusedWriteHint } from './errno-hint.ts'

const access = { writablePaths: ['/workspace', '/tmp'], user: 'other', rootAvailable: true } as const

describe('errnoHint', () => {
  it('names the folders that are writable where the path is not', () => {
    expect(errnoHint('EROFS', '/usr/bin/x', access)).toContain('Write below /workspace, /tmp')
    expect(errnoHint(13, '/opt/x', { ...access, rootAvailable: false })).toBe(
      'Only root may do that there. Write below /workspace, /tmp.',
    )
  })

  it('names the option for root on each surface, if the provider has it', () => {
    expect(errnoHint(13, '/opt/x', access)).toMatchObject({
      sdk: expect.stringContaining("user: 'root'"),
      http: expect.stringContaining('"user": "root"'),
      cli: expect.stringContaining('--user root'),
    })
  })

  it('does not advise to write where the file is already', () => {
    const hint = errnoHint('EACCES', '/tmp/of-root', access) as { sdk: string }
    expect(hint.sdk).toContain('belongs to another user')
    expect(hint.sdk).toContain('The mode of the file or of its folder')
    expect(hint.sdk).not.toContain('Write below')
    expect((errnoHint('EACCES', '/tmpfile', access) as { sdk: string }).sdk).toContain('Write below')
  })

  it('does not advise root where root cannot help', () => {
    expect(errnoHint('EACCES', '/proc/sys/x', access)).toContain('kernel')
    const asRoot = errnoHint('EACCES', '/usr/bin/env', { ...access, user: 'root', writablePaths: ['/'] })
    expect(asRoot).toContain('rename it over')
  })

  it('for a refused write needs only the writable folders', () => {
    const paths = ['/workspace', '/tmp']
    expect(refusedWriteHint('/usr/x', paths)).toContain('Write below /workspace, /tmp.')
    expect(refusedWriteHint('/tmp/x', paths)).toMatch(/^The mode of the file .* another user/)
    expect(refusedWriteHint('/proc/x', ['/'])).toContain('kernel')
    expect(refusedWriteHint('/usr/x', ['/'])).toContain('The mode of the file')
  })

  it('without known access, goes by the folder', () => {
    expect(errnoHint('EACCES', '/usr/x')).toContain('/tmp')
    expect(errnoHint('EACCES', '/data/x')).toBeUndefined()
  })
})
