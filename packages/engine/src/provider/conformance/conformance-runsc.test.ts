import { runtimeKit } from '../testing/runtime-kit.ts'

await runtimeKit('runsc')
