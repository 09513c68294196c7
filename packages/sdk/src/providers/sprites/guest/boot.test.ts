import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { randomId } from '../../../shared/ids.ts'
import { boot, bootLines } from './boot.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-boot-'))
const id = randomId()
const mark = `/tmp/.sandkasten/is-${id}`
afterAll(() => {
  rmSync(folder, { recursive: true, force: true })
  rmSync(mark, { force: true })
})

function booted(input: Uint8Array, how: 'mark' | '-' = 'mark', of = id) {
  const { status, stdout } = spawnSync('/bin/sh', ['-c', boot, 'agent', of, how, 'nonce'], { input })
  return { status, stdout: stdout.toString() }
}

describe('the first script in a sprite', () => {
  it('passes arguments, variables and the rest of stdin unchanged', () => {
    const args = ['', ' two  spaces ', 'a\nb\n', '+plus', '.', '-n', 'it\'s "quoted" $HOME \\ é', 'a=b\r']
    const script = `for one do printf '<%s>' "$one"; done; printf '[%s]' "$VALUE"; cat`
    const lines = bootLines({ script, args, variables: { VALUE: 'x=y z' } })
    const rest = 'the\nrest\n.\n'
    expect(booted(Buffer.concat([lines, Buffer.from(rest)]))).toEqual({
      status: 0,
      stdout: `nonce\n${args.map((arg) => `<${arg}>`).join('')}[x=y z]${rest}`,
    })
  })

  it('starts nothing if its input is incomplete', () => {
    const file = path.join(folder, 'started')
    const lines = bootLines({ script: 'touch "$1"', args: [file], variables: { A: 'b' } })
    for (let length = 0; length < lines.byteLength - 2; length += 7)
      expect(booted(lines.subarray(0, length)), `${length} bytes`).toEqual({ status: 97, stdout: '' })
    expect(existsSync(file)).toBe(false)
    expect(booted(lines).status).toBe(0)
    expect(existsSync(file)).toBe(true)
  })

  it('starts nothing in a sprite with another id', () => {
    const lines = bootLines({ script: 'echo started', args: [] })
    booted(lines)
    expect(booted(lines, '-')).toEqual({ status: 0, stdout: 'nonce\nstarted\n' })
    expect(booted(lines, '-', randomId())).toEqual({ status: 96, stdout: '' })
  })
})
