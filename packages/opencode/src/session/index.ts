export type { SessionServer } from './call.ts'
export type { FollowOptions } from './follow.ts'
export type { HistoryOptions, HistoryPage } from './history.ts'
export { addMcpServer } from './mcp.ts'
export { newMessageId } from './message-id.ts'
export type {
  FilePart,
  MessagePart,
  OtherPart,
  SessionFailure,
  SessionMessage,
  TextPart,
  ToolPart,
} from './messages.ts'
export { listModels, type ServerModel } from './model.ts'
export type { PermissionRequest, QuestionRequest, SessionQuestion } from './requests.ts'
export {
  type FileDiff,
  type OpencodeSession,
  type OpenSessionOptions,
  openSession,
  type ReplyOptions,
  type SessionPrompt,
} from './session.ts'
export type { SessionState, SessionStatus } from './view.ts'
