import { globSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { sshdProgram, startSshd } from './test-helper.ts'

const size = 256 * 1024

describe.skipIf(!sshdProgram)('the keeper of a program', () => {
  it('keeps the last output for a reader that is behind when the program ends', async () => {
    await using sshd = await startSshd({ ordinary: process.getuid?.() === 0 })
    const sandbox = await sshd.provider().create()
    // A reader as the keeper sees it, which has read 8 KiB more each time. A connection would hide its pace in buffers.
    const keptAt = async (everyMs: number) => {
      const execId = `pace-${everyMs}`
      const program = await sandbox.spawn({
        cmd: 'sh',
        args: ['-c', `cat; exec head -c ${size} /dev/zero`],
        stdin: 'pipe',
        outputBufferBytes: 64 * 1024,
        execId,
      })
      const [folder] = globSync(path.join(sshd.home, `sandkasten/**/p-${execId}`))
      const started = readFileSync('/proc/self/stat', 'utf8').split(') ')[1]!.split(' ')[19]
      const readTo = (at: number) =>
        writeFileSync(path.join(folder!, 'r/slow'), `${at} 0 ${process.pid} ${started} 0 ${at} 0\n`)
      let position = 0
      readTo(position)
      await program.closeStdin()
      const reading = setInterval(() => {
        position += 8192
        readTo(position)
      }, everyMs)
      await program.wait({ collect: false })
      clearInterval(reading)
      const kept = readFileSync(path.join(folder!, 'index'), 'utf8').matchAll(/^o \d+ (\d+)$/gm)
      return [...kept].reduce((sum, [, bytes]) => sum + Number(bytes), 0)
    }
    const paces = [30, 36, 42, 48, 54, 60]
    expect(await Promise.all(paces.map(keptAt))).toEqual(paces.map(() => size))
    await sandbox.destroy()
  })
})
