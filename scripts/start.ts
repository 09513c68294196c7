/** `npm start`: what is there so far. The daemon will start here. */
import { localCapabilities } from '../packages/sdk/src/providers/local/capabilities.ts'

const abilities = Object.entries(localCapabilities()).map(([ability, level]) =>
  level === 'native' ? ability : `${ability} (${level})`,
)

console.log(`Sandkasten: one TypeScript interface to every sandbox.

There is no server to start yet. What is here, on ${process.platform} with Node ${process.version}:
  @sandkasten/sdk          the interface, errors, the executor, recipes, the conformance kit
  @sandkasten/sdk/local    sandboxes as folders of this machine, WITHOUT isolation
                           it can: ${abilities.join(', ')}
  @sandkasten/engine       isolated sandboxes on Linux, without Docker or KVM
  @sandkasten/sdk/memory   a deterministic double for your own tests
  @sandkasten/cloudflare   *.sandbox.ts files turned into Cloudflare configuration

  npx sandkasten run -- python3 -c 'print(6*7)'
  npx sandkasten doctor    what this machine can do
  npm run example          a first sandbox, in twenty lines (examples/first-sandbox.ts)
  npm test                 everything that we hold ourselves to`)
