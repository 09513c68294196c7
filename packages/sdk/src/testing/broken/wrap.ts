import { override } from '../../shared/override.ts'
import type { ProcessHandle, SandboxHandle, SandboxProvider } from '../../spec/index.ts'

/**
 * Breaks a working provider. Each layer is a function from the real object to the members to replace; the rest is
 * passed through.
 */
export interface Breakage {
  provider?: (real: SandboxProvider) => Partial<SandboxProvider>
  sandbox?: (real: SandboxHandle) => Partial<SandboxHandle>
  process?: (real: ProcessHandle) => Partial<ProcessHandle>
  files?: (real: SandboxHandle['files']) => Partial<SandboxHandle['files']>
}

export function breakProvider(real: SandboxProvider, breakage: Breakage): SandboxProvider {
  const process = (handle: ProcessHandle): ProcessHandle => override(handle, breakage.process?.(handle) ?? {})
  const sandbox = (handle: SandboxHandle): SandboxHandle => {
    const files = override(handle.files, breakage.files?.(handle.files) ?? {})
    const wrapped: Partial<SandboxHandle> = {
      files,
      readFile: (path, options) => files.readFile(path, options as object),
      writeFile: (path, data, options) => files.writeFile(path, data, options),
      spawn: async (options) => process(await handle.spawn(options)),
      getProcess: async (id, options) => process(await handle.getProcess(id, options)),
      fork: async (options) =>
        (await handle.fork(options)).map((fork) => (fork instanceof Error ? fork : sandbox(fork))),
    }
    return override(handle, { ...wrapped, ...breakage.sandbox?.(override(handle, wrapped)) })
  }
  const provider: Partial<SandboxProvider> = {
    create: async (options) => sandbox(await real.create(options)),
    get: async (id, options) => sandbox(await real.get(id, options)),
    getOrCreate: async ({ onCreate, onResume, ...options }) =>
      sandbox(
        await real.getOrCreate({
          ...options,
          onCreate: onCreate ? (made) => onCreate(sandbox(made)) : undefined,
          onResume: onResume ? (found) => onResume(sandbox(found)) : undefined,
        }),
      ),
  }
  return override(real, { ...provider, ...breakage.provider?.(override(real, provider)) })
}
