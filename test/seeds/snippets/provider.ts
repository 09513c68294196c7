import type { SandboxHandle, SandboxStatus } from './handle.ts'

type CreateSandboxOpts = {
  /** Git repo to clone (for source: git providers) */
  repo?: string
  /** GitHub PAT for private repos */
  gitToken?: string
  /** Create from a saved snapshot instead of fresh */
  snapshotId?: string
  /** Runtime environment (e.g. 'node24', 'python3.13') */
  runtime?: string
  /** Ports to expose (always includes opencode port) */
  ports?: number[]
  /** VM resources */
  resources?: {
    vcpus?: number
    memoryMb?: number
  }
  /** Sandbox max lifetime in ms (Vercel: 45min-5hr) */
  timeout?: number
  /** Environment variables injected into the sandbox */
  envVars?: Record<string, string>
  /** Human-readable label */
  label?: string
}

type SandboxInfo = {
  sandboxId: string
  status: SandboxStatus
  createdAt?: Date
  label?: string
}

abstract class SandboxProvider {
  abstract readonly name: string

  /** Create a new sandbox, return a handle to it */
  abstract create(opts: CreateSandboxOpts): Promise<SandboxHandle>

  /** Reconnect to an existing sandbox by provider ID.
   *  Starts it if stopped (Daytona) or creates from snapshot
   *  if timed out (Vercel). */
  abstract get(sandboxId: string): Promise<SandboxHandle>

  /** List all sandboxes managed by this provider */
  abstract list(): Promise<SandboxInfo[]>

  /** Check if provider credentials are valid */
  abstract healthCheck(): Promise<boolean>
}

export type { CreateSandboxOpts, SandboxInfo }
export { SandboxProvider }
