import { getSandboxExecutor } from '@sandkasten/sdk/executor'

const executor = getSandboxExecutor();
try {
  // ... run agent conversation ...
} finally {
  await executor.cleanup();
}

export {}
