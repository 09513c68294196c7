import {
  botToken,
  channelId,
  createOpencodeClient,
  getProviderForChannel,
  hranaHost,
  hranaPort,
  lockPort,
  prisma,
  projectDir,
  sandboxName,
} from '../surroundings.ts'
import { bootstrapOpencode } from './bootstrap.ts'
import { uploadProject } from './upload-project.ts'

// 1. Resolve provider (from DB or auto-detect)
const provider = await getProviderForChannel(channelId)

// 2. Create sandbox
const handle = await provider.create({
  ports: [7777],
  runtime: 'node24',
  envVars: {
    KIMAKI_DB_URL: `http://${hranaHost}:${hranaPort}`,
    KIMAKI_BOT_TOKEN: botToken,
    KIMAKI_LOCK_PORT: String(lockPort),
  },
})

// 3. Upload project files
await uploadProject(handle, { projectDir })

// 4. Bootstrap opencode
const { url } = await bootstrapOpencode(handle, {
  envVars: { /* same as above */ },
  cwd: '/workspace',
})

// 5. Store in DB
await prisma.sandboxes.create({
  data: {
    name: sandboxName,
    provider: provider.name,
    provider_sandbox_id: handle.sandboxId,
    status: 'running',
    base_url: url,
    channel_id: channelId,
  },
})

// 6. Connect with opencode SDK (existing code, unchanged)
const client = createOpencodeClient({ baseUrl: url })

export { client, handle, provider }
