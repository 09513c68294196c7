import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { EngineProvider, type EngineProviderOptions } from '@sandkasten/engine'
import { type BootstrapOpencodeOptions, modelNetwork, modelUrl } from '@sandkasten/opencode'
import type { CreateSandboxOpts, SandboxHandle } from '@sandkasten/sdk'
import {
  type ModelServer,
  modelConfig,
  startModelServer,
} from '../../packages/opencode/src/testing/model-server.ts'

/** Sandboxes of the engine that reach a scripted model and nothing else. */
export interface Surroundings extends AsyncDisposable {
  readonly model: ModelServer
  readonly root: string
  provider: EngineProvider
  /** With these, opencode uses the model. */
  readonly options: BootstrapOpencodeOptions
  /** With a repository in the working directory. */
  create(options?: CreateSandboxOpts): Promise<SandboxHandle>
  close(): Promise<void>
}

export async function surroundings(options: EngineProviderOptions = {}): Promise<Surroundings> {
  const root = await mkdtemp(path.join(tmpdir(), 'sk-opencode-'))
  const model = await startModelServer()
  const made: SandboxHandle[] = []
  const all: Surroundings = {
    model,
    root,
    provider: new EngineProvider({ root, prepareNext: false, ...options }),
    options: { config: modelConfig(modelUrl(model)) },
    async create(given = {}) {
      const network = modelNetwork(model)
      const resources = { memoryMb: 1536, vcpus: 2, ...given.resources }
      const handle = await all.provider.create({ network, ...given, resources })
      made.push(handle)
      if (given.snapshotId === undefined)
        await sh(handle, `git init -q . && echo before > file.txt && ${commit}`)
      return handle
    },
    async close() {
      for (const { sandboxId } of made) await all.provider.destroy(sandboxId)
      await all.provider.close()
      await model.close()
      await rm(root, { recursive: true, force: true })
    },
    [Symbol.asyncDispose]: () => all.close(),
  }
  return all
}

const commit = 'git add . && git -c user.name=t -c user.email=t@example.com commit -qm first'

/** Output of a line in the sandbox; throws if it fails. */
export async function sh(handle: SandboxHandle, line: string): Promise<string> {
  const { exitCode, stdout, stderr } = await handle.runCommand({ cmd: 'sh', args: ['-c', line] })
  if (exitCode !== 0) throw new Error(`${line}: ${exitCode} ${stderr}`)
  return stdout
}

/** What a failed bootstrap could leave: programs in the home, and processes of the agent. */
export async function leftIn(handle: SandboxHandle): Promise<string[]> {
  const files = await sh(handle, 'find "$HOME/.local/bin" -type f 2>/dev/null || true')
  const processes = await sh(handle, 'ps -eo args= | grep -e "[o]pencode" || true')
  return `${files}${processes}`.split('\n').filter((line) => line !== '')
}
