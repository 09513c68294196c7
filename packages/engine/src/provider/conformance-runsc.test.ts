import { runtimeKit } from './runtime-kit.ts'

await runtimeKit('runsc')
