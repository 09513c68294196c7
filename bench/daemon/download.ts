/**
 * Downloads 1 GiB through the file API, with curl and with our client, beside `cat file | cat` on the host. The data
 * is discarded.
 */
import { execFile } from 'node:child_process'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { folderIn } from '../engine/workplace.ts'
import { timed } from '../measure.ts'
import { reportTurns } from '../report.ts'
import { startWorker } from '../worker.ts'
import type { Stage } from './stage.ts'

const run = promisify(execFile)

export const download: Stage = {
  title: '1 GiB downloaded',
  ids: ['host.cat1GiB', 'daemon.download1GiB', 'daemon.download1GiB.client', 'daemon.download1GiB.memory'],
  async run(bench) {
    const { server, place, quick, report, wants } = bench
    const mebibytes = quick ? 256 : 1024
    const file = join(folderIn(place, 'download'), 'big')
    const fill = (to: string) => `head -c ${mebibytes}M /dev/urandom > ${to}`
    await run('sh', ['-c', fill(file)])
    const client = await startWorker(place.cleanup, new URL('./download-worker.ts', import.meta.url))
    const session = await server.create()
    let highest = 0
    try {
      const { exitCode, stderr } = await session.run('sh', { args: ['-c', fill('big')] })
      if (exitCode !== 0) throw new Error(stderr)
      const before = server.memory()
      const timer = setInterval(() => {
        highest = Math.max(highest, server.memory())
      }, 20)
      await reportTurns(
        bench,
        [
          {
            id: 'host.cat1GiB',
            samples: 1,
            measure: () => timed(() => run('sh', ['-c', `cat ${file} | cat > /dev/null`])),
          },
          {
            id: 'daemon.download1GiB',
            samples: 1,
            async measure() {
              const url = `${server.url}/v1/sessions/${session.id}/files?path=big`
              const options = ['-sS', '--fail', '-o', '/dev/null', '-w', '%{size_download}', '-K', '-', url]
              let text = ''
              const ms = await timed(async () => {
                const asked = run('curl', options)
                asked.child.stdin!.end(`header = "authorization: Bearer ${server.key}"\n`)
                text = (await asked).stdout
              })
              if (Number(text) !== mebibytes * 1024 ** 2) throw new Error(`${text} bytes came`)
              return ms
            },
          },
          {
            id: 'daemon.download1GiB.client',
            samples: 1,
            async measure() {
              const { ms, text } = await client('download', server.url, server.key, session.id, 'big')
              if (Number(text) !== mebibytes * 1024 ** 2) throw new Error(`${text} bytes came`)
              return ms
            },
          },
        ],
        quick ? 2 : 5,
      )
      clearInterval(timer)
      const more = Math.max(0, highest - before) / 1024 ** 2
      if (wants('daemon.download1GiB.memory'))
        report.add('daemon.download1GiB.memory', { p50: more, p95: more, count: 1 }, 'MiB more')
    } finally {
      rmSync(file, { force: true })
      await session.destroy()
    }
  },
}
