export type * from './spec/agent.ts'
export type * from './spec/answer.ts'
export type * from './spec/chat.ts'
export type * from './spec/threads.ts'
