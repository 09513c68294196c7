import { MemoryProvider } from '@sandkasten/sdk/memory'
import { memoryCommands, memoryEgress, runConformance } from '@sandkasten/sdk/testing'

// Replace MemoryProvider by the provider that you write. Leave `only` out to run every behaviour.
const provider = new MemoryProvider()
const report = await runConformance({
  provider: () => provider,
  reopen: () => provider.reopen(), // the same sandboxes, as another process sees them
  commands: memoryCommands(provider), // posixCommands() for sandboxes with a real `sh`
  egress: memoryEgress, // two servers that the network of your sandboxes reaches
  without: { server: 'no network', leftovers: 'nothing to look at from outside' },
  only: ['exit codes and signals'],
})
console.log(report.passed > 10, report.failed)
