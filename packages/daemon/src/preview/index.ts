export { type Previews, startPreviews } from './start.ts'
