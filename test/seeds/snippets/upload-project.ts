import fs from 'node:fs/promises'
import path from 'node:path'
import type { SandboxHandle } from '@sandkasten/sdk'
import { execAsync } from '../surroundings.ts'

type UploadProjectOpts = {
  /** Local project directory */
  projectDir: string
  /** Where to extract inside the sandbox */
  remotePath?: string // default: '/workspace'
}

async function uploadProject(
  handle: SandboxHandle,
  opts: UploadProjectOpts,
): Promise<void> {
  const remotePath = opts.remotePath || '/workspace'
  const tmpDir = path.join(
    opts.projectDir,
    'tmp',
    `sandbox-upload-${Date.now()}`,
  )
  const tarPath = `${tmpDir}.tar.gz`

  try {
    // 1. Shallow clone locally (tracked files + .git, no gitignored)
    await execAsync(
      `git clone --depth 1 file://${opts.projectDir} ${tmpDir}`,
    )

    // 2. Create tarball
    await execAsync(`tar czf ${tarPath} -C ${tmpDir} .`)

    // 3. Upload to sandbox
    await handle.uploadFile(tarPath, '/tmp/project.tar.gz')

    // 4. Extract inside sandbox
    await handle.runCommand({
      cmd: 'sh',
      args: [
        '-c',
        `mkdir -p ${remotePath} && tar xzf /tmp/project.tar.gz -C ${remotePath} && rm /tmp/project.tar.gz`,
      ],
    })
  } finally {
    // 5. Cleanup local temp files
    await fs.rm(tmpDir, { recursive: true, force: true })
    await fs.rm(tarPath, { force: true })
  }
}

export { uploadProject }
