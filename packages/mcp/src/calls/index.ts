export type { CalledTool, CallToolOptions, ToolCaller } from './caller.ts'
export { localCaller } from './local-caller.ts'
export { type Seen, withNews } from './news.ts'
