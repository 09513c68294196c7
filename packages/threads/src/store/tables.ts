import type { AgentMode } from '../spec/agent.ts'
import type { AnswerState } from '../spec/answer.ts'
import type { Thread } from '../spec/threads.ts'

/** The rows, the same on SQLite and Postgres. Times are whole milliseconds since 1970; objects are JSON text. */
export interface Tables {
  threads: ThreadRow
  thread_turns: TurnRow
  thread_posts: PostRow
  thread_questions: QuestionRow
  thread_notices: NoticeRow
  thread_schedules: ScheduleRow
  thread_settings: SettingsRow
  thread_audit: AuditRow
  thread_workers: WorkerRow
}

export interface ThreadRow {
  app_id: string
  thread_id: string
  guild_id: string
  channel_id: string
  title: string
  state: Thread['state']
  /** JSON of `SandboxChoice`: what to make while the thread is `pending` or `failed`. */
  choice: string
  /** The name of the sandbox. Stored before the sandbox is created. */
  sandbox: string | null
  /** The snapshot that a fork is made from. */
  fork_snapshot: string | null
  /** The incarnation of the sandbox that the thread spoke to last. */
  incarnation: number | null
  mode: AgentMode | null
  session_id: string | null
  directory: string | null
  /** The commit that the thread’s changes are compared with. */
  base_commit: string | null
  model: string | null
  created_by: string
  error_message: string | null
  error_hint: string | null
  /** 1: work is due that belongs to no message: make the sandbox, or end what the thread used. */
  due: number
  created_at: number
  updated_at: number
}

export interface TurnRow {
  /** The id of the answer. */
  id: string
  app_id: string
  thread_id: string
  /** The chat’s id of the message. */
  message_id: string
  /** The order in the thread. */
  seq: number
  state: AnswerState
  /** 1: the answer is completely shown, and nothing is left to do. */
  is_final: number
  /** 1: a user ended it. */
  is_aborted: number
  text: string
  /** JSON of the names of attachments, which are in the spool. */
  files: string
  by_id: string
  by_name: string
  /** The agent’s id of the message. Stored before the message is sent. */
  agent_message_id: string | null
  /** JSON of the end of the answer, until it is shown. Null although it has ended: the agent is asked again. */
  ending: string | null
  model: string | null
  cost_micro_usd: number | null
  created_at: number
  started_at: number | null
  ended_at: number | null
}

export interface PostRow {
  app_id: string
  owner_id: string
  /** The place among the posts of the owner. */
  place: number
  nonce: string
  post_id: string | null
  created_at: number
}

export interface QuestionRow {
  id: string
  app_id: string
  thread_id: string
  turn_id: string | null
  /** The agent’s id, or the id of the call through the bridge. */
  agent_question_id: string
  source: 'agent' | 'bridge'
  /** JSON of `Question`. */
  question: string
  state: 'open' | 'answered' | 'ended'
  /** JSON of `AgentReply`. */
  reply: string | null
  /** Shown to people: who answered what. */
  outcome: string | null
  /** 1: the chat shows the outcome. */
  is_settled: number
  created_at: number
}

/** A notice that the chat has not shown yet. */
export interface NoticeRow {
  app_id: string
  thread_id: string
  notice_key: string
  level: 'info' | 'warning' | 'error'
  text: string
  created_at: number
}

export interface ScheduleRow {
  id: string
  app_id: string
  thread_id: string
  text: string
  due_at: number
  /** Null: once. */
  every_ms: number | null
  created_at: number
}

export interface SettingsRow {
  app_id: string
  guild_id: string
  /** Empty: the guild’s. */
  channel_id: string
  settings: string
  updated_at: number
}

export interface AuditRow {
  id: string
  app_id: string
  guild_id: string
  channel_id: string | null
  thread_id: string | null
  by_id: string
  by_name: string
  action: string
  target: string | null
  result: string
  at: number
}

/** The process that works for an app. */
export interface WorkerRow {
  app_id: string
  /** Only grows: it fences out earlier holders. */
  token: number
  /** Null: free. */
  holder: string | null
  /** The holder counts this up while it lives. */
  beat: number
}
