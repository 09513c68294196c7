// @sandkasten/threads
//   Action
//   Actor
//   AgentAnswer
//   AgentBridge
//   AgentMessage
//   AgentMode
//   AgentModeSetting
//   AgentModel
//   AgentOpener
//   AgentPlace
//   AgentQuestion
//   AgentReply
//   AgentRequest
//   Agents
//   AgentsOptions
//   Allowed
//   Answer
//   AnswerState
//   AskedQuestion
//   Attachment
//   AuditEntry
//   Block
//   Bridge
//   BridgeAddress
//   BridgeHome
//   BridgeOptions
//   BridgeQuestion
//   BridgeSchedule
//   Chat
//   ChatFile
//   Choice
//   Footer
//   Member
//   ModeChoice
//   ModeFacts
//   NewSchedule
//   NewThread
//   Notice
//   OpenAgentOptions
//   OpenThreadsOptions
//   OpencodeAccess
//   Posts
//   Question
//   ResolvedDirectory
//   SandboxChoice
//   SandboxOptions
//   SavedAuditEntry
//   SavedPost
//   ScheduledMessage
//   ScheduledText
//   Settings
//   SettingsPlace
//   ShellResult
//   Thread
//   ThreadAgent
//   ThreadLimits
//   ThreadServices
//   Threads
//   UseSandbox
//   UserMessage
//   agentOpener
//   allowed
//   chooseMode
//   defaultLimits
//   initializeOpencodeForDirectory
//   isOnlyForManagers
//   newMessageId
//   openAgents
//   openBridge
//   openThreads
//   resolvedDirectory
//   servicesHome

export type Action = 'use' | 'create' | 'destroy' | 'setup';

export interface Actor {
    readonly id: string;
    readonly name: string;
}

export interface AgentAnswer {
    readonly state: 'working' | 'done' | 'failed' | 'aborted';
    readonly isFinal: boolean;
    readonly blocks: readonly Block[];
    readonly questions: readonly AgentQuestion[];
    readonly error?: string;
    readonly model?: string;
    readonly costUsd?: number;
    readonly title?: string;
}

export interface AgentBridge {
    atHome(threadId: string, useSandbox: UseSandbox): Promise<BridgeAddress>;
    inSandbox(threadId: string, handle: SandboxHandle, directory: string): Promise<BridgeAddress>;
}

export interface AgentMessage {
    readonly id: string;
    readonly text: string;
    readonly files: readonly string[];
    readonly model?: string;
}

export type AgentMode = 'inside' | 'home';

export type AgentModeSetting = AgentMode | 'auto';

export interface AgentModel {
    readonly id: string;
    readonly name: string;
}

export interface AgentOpener {
    newMessageId(): string;
    open(place: AgentPlace, options?: OpenAgentOptions): Promise<ThreadAgent>;
}

export interface AgentPlace {
    readonly threadId: string;
    readonly title: string;
    readonly hold: Hold;
    readonly sandboxes: ScopedRegistry;
    readonly mode?: AgentMode;
    readonly sessionId?: string;
    readonly directory?: string;
    readonly forkOf?: {
        readonly sessionId: string;
        readonly mode: AgentMode;
    };
    readonly model?: string;
    readonly isShared: boolean;
    readonly services: ThreadServices;
}

export interface AgentQuestion {
    readonly id: string;
    readonly kind: 'permission' | 'question';
    readonly text: string;
    readonly choices: readonly Choice[];
    readonly isMultiple: boolean;
    readonly allowsText: boolean;
}

export type AgentReply = {
    readonly choices: readonly string[];
    readonly text?: string;
} | {
    readonly rejected: true;
};

export interface AgentRequest {
    readonly threadId: string;
    readonly sandboxes: ScopedRegistry;
    readonly sandbox: NamedSandbox;
    readonly mode?: AgentMode;
    readonly sessionId?: string;
    readonly forkOf?: string;
    readonly directory?: string;
    readonly title?: string;
    readonly isShared?: boolean;
    readonly onProgress?: (message: string) => void;
    readonly signal?: AbortSignal;
}

export interface Agents extends AsyncDisposable {
    choose(request: Pick<AgentRequest, 'sandbox' | 'mode'>): ModeChoice;
    open(request: AgentRequest): Promise<ThreadAgent>;
    close(): Promise<void>;
}

export interface AgentsOptions {
    readonly homeFolder: string;
    readonly mode?: AgentModeSetting;
    readonly config?: Readonly<Record<string, unknown>>;
    readonly homeConfig?: Readonly<Record<string, unknown>>;
    readonly model?: string;
    readonly credentials?: readonly AgentCredential[];
    readonly homeCredentials?: readonly AgentCredential[];
    readonly envVars?: Environment;
    readonly binary?: string;
    readonly bridge?: AgentBridge;
    readonly onProblem?: (threadId: string, message: string) => void;
}

export interface Allowed {
    readonly roles: readonly string[];
    readonly users: readonly string[];
}

export interface Answer {
    readonly id: string;
    readonly threadId: string;
    readonly state: AnswerState;
    readonly isFinal: boolean;
    readonly blocks: readonly Block[];
    readonly error?: {
        readonly message: string;
        readonly hint?: string;
    };
    readonly footer?: Footer;
}

export type AnswerState = 'queued' | 'preparing' | 'working' | 'done' | 'failed' | 'aborted';

export interface AskedQuestion {
    readonly text: string;
    readonly choices: readonly Choice[];
    readonly isMultiple: boolean;
    readonly allowsText: boolean;
}

export interface Attachment {
    readonly name: string;
    readonly sizeBytes: number;
    load(options?: CallOptions): Promise<AsyncIterable<Uint8Array>>;
}

export interface AuditEntry {
    readonly by: Actor;
    readonly action: string;
    readonly guildId?: string;
    readonly channelId?: string;
    readonly threadId?: string;
    readonly target?: string;
    readonly result: string;
}

export type Block = {
    readonly type: 'text';
    readonly id: string;
    readonly text: string;
} | {
    readonly type: 'tool';
    readonly id: string;
    readonly tool: string;
    readonly status: 'running' | 'completed' | 'error';
    readonly title: string;
    readonly durationMs?: number;
} | {
    readonly type: 'step';
    readonly id: string;
    readonly text: string;
    readonly isDone: boolean;
} | {
    readonly type: 'diff';
    readonly id: string;
    readonly patch: string;
} | {
    readonly type: 'file';
    readonly id: string;
    readonly file: ChatFile;
};

export interface Bridge extends AgentBridge, AsyncDisposable {
    revoke(threadId: string): void;
}

export interface BridgeAddress extends AsyncDisposable {
    readonly url: string;
    readonly token: string;
}

export interface BridgeHome {
    sendFile(threadId: string, file: ChatFile, note: string | undefined, options: CallOptions): Promise<void>;
    ask(threadId: string, question: BridgeQuestion, options: CallOptions): Promise<string>;
    setTitle(threadId: string, title: string, options: CallOptions): Promise<void>;
    schedule(threadId: string, schedule: NewSchedule, options: CallOptions): Promise<BridgeSchedule>;
    cancelSchedule(threadId: string, scheduleId: string, options: CallOptions): Promise<boolean>;
    listSchedules(threadId: string, options: CallOptions): Promise<readonly BridgeSchedule[]>;
}

export interface BridgeOptions {
    readonly home: BridgeHome;
    readonly onProblem?: (threadId: string, message: string) => void;
}

export interface BridgeQuestion {
    readonly text: string;
    readonly choices: readonly string[];
}

export interface BridgeSchedule {
    readonly id: string;
    readonly when: string;
    readonly text: string;
}

export interface Chat {
    readonly name: string;
    show(answer: Answer): Promise<void>;
    ask(question: Question): Promise<void>;
    settle(question: Question, outcome: string): Promise<void>;
    notify(notice: Notice): Promise<void>;
    rename(threadId: string, title: string): Promise<void>;
    archive(threadId: string): Promise<void>;
}

export interface ChatFile {
    readonly name: string;
    readonly bytes: Uint8Array;
}

export interface Choice {
    readonly value: string;
    readonly label: string;
    readonly description?: string;
}

export interface Footer {
    readonly sandbox: string;
    readonly provider: string;
    readonly status: string;
    readonly model?: string;
    readonly costUsd?: number;
    readonly durationMs: number;
}

export interface HomeThread {
    readonly server: SessionServer;
    readonly permission: readonly PermissionRule[];
    close(): Promise<void>;
}

export interface Member {
    readonly id: string;
    readonly roles: readonly string[];
    readonly canManageGuild: boolean;
}

export interface ModeChoice {
    readonly mode: AgentMode;
    readonly reason: string;
}

export interface ModeFacts {
    readonly provider: string;
    readonly capabilities: Capabilities;
    readonly memoryMb?: number;
}

export interface NewSchedule {
    readonly when: string;
    readonly text: string;
}

export interface NewThread {
    readonly threadId: string;
    readonly channelId: string;
    readonly guildId?: string;
    readonly title: string;
    readonly by: Actor;
    readonly sandbox: SandboxChoice;
    readonly model?: string;
    readonly mode?: AgentMode;
    readonly message?: Omit<UserMessage, 'threadId'>;
}

export interface Notice {
    readonly key: string;
    readonly threadId: string;
    readonly level: 'info' | 'warning' | 'error';
    readonly text: string;
    readonly files?: readonly ChatFile[];
}

export interface OpenAgentOptions extends CallOptions {
    readonly onStep?: (text: string) => void;
}

export interface OpenThreadsOptions {
    readonly appId: string;
    readonly sandboxAppId?: string;
    readonly registry: Registry;
    readonly agents: AgentOpener;
    readonly chat: Chat | ((posts: Posts) => Chat);
    readonly database?: DatabaseLocation;
    readonly dataDir?: string;
    readonly sandboxDefaults?: SandboxOptions;
    readonly agentNetwork?: Network;
    readonly limits?: Partial<ThreadLimits>;
    readonly allowsLocalLinks?: boolean;
    readonly onError?: (error: unknown) => void;
    readonly lookMs?: number;
    readonly retryMs?: number;
    readonly env?: Readonly<Record<string, string | undefined>>;
}

export interface OpencodeAccess extends SessionServer {
    readonly mode: AgentMode;
}

export interface Posts {
    list(ownerId: string): Promise<readonly SavedPost[]>;
    reserve(ownerId: string, index: number): Promise<{
        nonce: string;
        postId?: string;
    }>;
    sent(ownerId: string, index: number, postId: string): Promise<void>;
    removed(ownerId: string, index: number): Promise<void>;
}

export interface Question {
    readonly id: string;
    readonly threadId: string;
    readonly kind: 'permission' | 'question';
    readonly text: string;
    readonly choices: readonly Choice[];
    readonly isMultiple: boolean;
    readonly allowsText: boolean;
}

export interface ResolvedDirectory {
    readonly projectDirectory: string;
    readonly workingDirectory: string;
    readonly channelAppId?: string;
    readonly sandbox?: {
        readonly id: string;
        readonly provider: string;
        readonly providerSandboxId: string;
        readonly baseUrl: string | null;
        readonly status: string;
    };
}

export type SandboxChoice = {
    readonly existing: string;
} | {
    readonly create: SandboxOptions & Pick<CreateOptions, 'name' | 'provider' | 'repo' | 'snapshotId'>;
} | {
    readonly fork: string;
};

export type SandboxOptions = Pick<CreateOptions, 'image' | 'network' | 'ports' | 'resources' | 'lifetimeMs' | 'idleStopMs'>;

export interface SavedAuditEntry extends AuditEntry {
    readonly at: Date;
}

export interface SavedPost {
    readonly index: number;
    readonly nonce: string;
    readonly postId?: string;
}

export interface ScheduledMessage extends ScheduledText {
    readonly id: string;
}

export interface ScheduledText {
    readonly at: Date;
    readonly everyMs?: number;
    readonly text: string;
}

export interface Settings {
    readonly allowed: Readonly<Partial<Record<Action, Allowed>>>;
    readonly provider?: string;
    readonly model?: string;
    readonly mode?: AgentMode;
    readonly threadsPerUser?: number;
    readonly sandboxes?: number;
}

export interface SettingsPlace {
    readonly guildId?: string;
    readonly channelId?: string;
}

export interface ShellResult {
    readonly exitCode: number;
    readonly output: string;
    readonly isCut: boolean;
}

export interface Thread {
    readonly threadId: string;
    readonly channelId: string;
    readonly guildId?: string;
    readonly title: string;
    readonly state: 'pending' | 'ready' | 'failed' | 'archived' | 'ended';
    readonly createdBy: string;
    readonly sandbox?: string;
    readonly mode?: AgentMode;
    readonly model?: string;
    readonly isWorking: boolean;
    readonly queued: number;
    readonly error?: string;
}

export interface ThreadAgent extends AsyncDisposable {
    readonly mode: AgentMode;
    readonly sessionId: string;
    readonly directory: string;
    prompt(message: AgentMessage, options?: CallOptions): Promise<void>;
    has(messageId: string, options?: CallOptions): Promise<boolean>;
    answer(messageId: string, options?: CallOptions): AsyncIterable<AgentAnswer>;
    abort(options?: CallOptions): Promise<void>;
    reply(questionId: string, reply: AgentReply, options?: CallOptions): Promise<void>;
    models(options?: CallOptions): Promise<readonly AgentModel[]>;
}

export interface ThreadLimits {
    readonly messageBytes: number;
    readonly queuedMessages: number;
    readonly attachments: number;
    readonly attachmentBytes: number;
    readonly spoolBytes: number;
    readonly filesPerAnswer: number;
    readonly fileBytes: number;
    readonly schedulesPerThread: number;
    readonly threadsPerUser: number;
    readonly threadsPerGuild: number;
    readonly diffBytes: number;
    readonly bundleBytes: number;
    readonly shellBytes: number;
    readonly shellMs: number;
}

export interface ThreadServices {
    sendFile(callId: string, file: ChatFile, options?: CallOptions & {
        readonly note?: string;
    }): Promise<void>;
    ask(callId: string, question: AskedQuestion, options?: CallOptions): Promise<AgentReply>;
    setTitle(title: string): Promise<void>;
    schedule(callId: string, message: ScheduledText): Promise<ScheduledMessage>;
    listSchedules(): Promise<readonly ScheduledMessage[]>;
    cancelSchedule(id: string): Promise<boolean>;
}

export interface Threads extends AsyncDisposable {
    start(): Promise<void>;
    close(): Promise<void>;
    begin(thread: NewThread): Promise<Thread>;
    say(message: UserMessage): Promise<'started' | 'queued' | 'known' | 'unknown-thread'>;
    get(threadId: string): Promise<Thread | undefined>;
    list(options?: {
        readonly channelId?: string;
        readonly sandbox?: string;
    }): Promise<readonly Thread[]>;
    abort(threadId: string, by: Actor): Promise<boolean>;
    cancel(threadId: string, by: Actor): Promise<boolean>;
    reply(questionId: string, reply: AgentReply, by: Actor): Promise<boolean>;
    setModel(threadId: string, model: string | undefined, by: Actor): Promise<void>;
    models(threadId: string): Promise<readonly AgentModel[]>;
    connect(threadId: string, sandbox: string, by: Actor): Promise<void>;
    shell(threadId: string, command: string, by: Actor, options?: CallOptions): Promise<ShellResult>;
    diff(threadId: string, by: Actor, options?: CallOptions): Promise<string>;
    pull(threadId: string, as: 'patch' | 'branch', by: Actor, options?: CallOptions): Promise<ChatFile>;
    url(threadId: string, port: number, by: Actor, options?: CallOptions): Promise<string>;
    sandboxes(scope: Scope, options?: {
        readonly refresh?: boolean;
    }): Promise<readonly SandboxRecord[]>;
    stop(scope: Scope, sandbox: string, by: Actor): Promise<SandboxRecord>;
    startSandbox(scope: Scope, sandbox: string, by: Actor): Promise<SandboxRecord>;
    snapshot(scope: Scope, sandbox: string, by: Actor): Promise<{
        readonly snapshotId: string;
    }>;
    destroy(scope: Scope, sandbox: string, by: Actor): Promise<{
        readonly threads: readonly string[];
    }>;
    archived(threadId: string): Promise<void>;
    unarchived(threadId: string): Promise<void>;
    deleted(threadId: string): Promise<void>;
    channelDeleted(channelId: string): Promise<void>;
    readonly posts: Posts;
    settings(place: SettingsPlace): Promise<Settings>;
    saveSettings(place: SettingsPlace, settings: Settings, by: Actor): Promise<void>;
    getProviderForChannel(channelId: string, guildId?: string): Promise<string | undefined>;
    audit(entry: AuditEntry): Promise<void>;
    auditLog(place: SettingsPlace, options?: {
        readonly limit?: number;
    }): Promise<readonly SavedAuditEntry[]>;
}

export type UseSandbox = <T>(work: (handle: SandboxHandle, directory: string, signal: AbortSignal) => Promise<T>, signal: AbortSignal) => Promise<T>;

export interface UserMessage {
    readonly id: string;
    readonly threadId: string;
    readonly by: Actor;
    readonly text: string;
    readonly attachments?: readonly Attachment[];
}

export declare function agentOpener(agents: Pick<Agents, 'open'>, services?: Map<string, ThreadServices>): AgentOpener;

export declare function allowed(settings: Settings, member: Member, action: Action): boolean;

export declare function chooseMode(facts: ModeFacts, setting?: AgentModeSetting): ModeChoice;

export declare const defaultLimits: ThreadLimits;

export declare function initializeOpencodeForDirectory(resolved: ResolvedDirectory, { mode, request, options, home, }: {
    readonly mode: AgentMode;
    readonly request: AgentRequest;
    readonly options: AgentsOptions;
    readonly home?: HomeThread;
}): Promise<() => OpencodeAccess>;

export declare function isOnlyForManagers(settings: Settings, action: Action): boolean;

export declare function openAgents(options: AgentsOptions): Agents;

export declare function openBridge({ home, onProblem }: BridgeOptions): Promise<Bridge>;

export declare function openThreads(options: OpenThreadsOptions): Promise<Threads>;

export declare function resolvedDirectory({ record, handle }: NamedSandbox, options?: {
    readonly workingDirectory?: string;
    readonly appId?: string;
}): ResolvedDirectory;

export declare function servicesHome(services: ReadonlyMap<string, ThreadServices>): BridgeHome;
