import { LocalSandboxExecutor, VercelSandboxExecutor } from '@sandkasten/sdk/executor'
import type { SandboxExecutor } from './executor.ts'

// src/lib/sandbox/executor.ts
export function getSandboxExecutor(): SandboxExecutor {
  if (process.env.VERCEL === '1') {
    return new VercelSandboxExecutor();
  }
  return new LocalSandboxExecutor();
}
