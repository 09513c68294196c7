/** Downloads with our client in a process of its own, as curl does. */
import { SandboxClient } from '@sandkasten/sdk/client'
import { timed } from '../measure.ts'
import { serve } from '../worker.ts'

serve({
  async download(url, apiKey, id, path) {
    const session = new SandboxClient({ url, apiKey }).session(id!)
    let bytes = 0
    const ms = await timed(async () => {
      for await (const chunk of await session.files.readStream(path!)) bytes += chunk.length
    })
    return { ms, text: String(bytes) }
  },
})
