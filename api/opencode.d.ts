// @sandkasten/opencode
//   Agent
//   AgentCredential
//   AgentEvent
//   AgentMount
//   AgentName
//   AgentRun
//   AgentServer
//   BootstrapOpencodeOptions
//   BootstrapOptions
//   BootstrapProgress
//   BootstrapStage
//   Health
//   InstalledAgent
//   ModelAddress
//   OPENCODE_PORT
//   OpenWorktreeOptions
//   PermissionRule
//   RunAgentOptions
//   SandboxOnly
//   SandboxOnlyOptions
//   ServerAgentName
//   WaitForHealthOptions
//   Worktree
//   agentMount
//   agents
//   bootstrapAgent
//   bootstrapOpencode
//   modelNetwork
//   modelUrl
//   openWorktree
//   runAgent
//   sandboxOnly
//   waitForHealth

// @sandkasten/opencode/session
//   FileDiff
//   FilePart
//   FollowOptions
//   HistoryOptions
//   HistoryPage
//   MessagePart
//   OpenSessionOptions
//   OpencodeSession
//   OtherPart
//   PermissionRequest
//   QuestionRequest
//   ReplyOptions
//   ServerModel
//   SessionFailure
//   SessionMessage
//   SessionPrompt
//   SessionQuestion
//   SessionServer
//   SessionState
//   SessionStatus
//   TextPart
//   ToolPart
//   addMcpServer
//   listModels
//   newMessageId
//   openSession

// @sandkasten/opencode/plugin
//   HelperLine
//   HelperMethods
//   HelperRequest
//   HomeProject
//   HomeProvider
//   Hooks
//   PluginInput
//   SandkastenPluginOptions
//   WorkspaceAdapter
//   WorkspaceFacts
//   WorkspaceInfo
//   WorkspaceTarget
//   default
//   protocolVersion

// @sandkasten/opencode/server
//   HelperLine
//   HelperMethods
//   HelperRequest
//   HomeProject
//   HomeProvider
//   Hooks
//   PluginInput
//   SandkastenPluginOptions
//   WorkspaceAdapter
//   WorkspaceFacts
//   WorkspaceInfo
//   WorkspaceTarget
//   default
//   protocolVersion

export interface Agent {
    readonly name: string;
    readonly title: string;
    readonly package: string;
    readonly version: string;
    readonly program: string;
    readonly versionArgs: readonly string[];
    platformPackages(arch: 'x64' | 'arm64', musl: boolean, avx2: boolean): string[];
    readonly fileInPackage: string;
    readonly pathsInHome: readonly string[];
    readonly needs: readonly string[];
    readonly authVariable?: string;
    environment(context: AgentContext): Record<string, string>;
    readonly stateFolders: readonly string[];
    readonly server?: ServerSpec;
    readonly headless: Headless;
    interactiveArgs(options: {
        model?: string;
        sessionId?: string;
    }): string[];
}

export interface AgentContext {
    readonly folder: string;
    readonly model: string | undefined;
    readonly config: Readonly<Record<string, unknown>> | undefined;
}

export type AgentCredential = {
    readonly variable: string;
    readonly value?: string;
    readonly secret?: undefined;
} | {
    readonly variable: string;
    readonly secret: string;
} | {
    readonly provider: string;
    readonly auth?: Readonly<Record<string, unknown>>;
    readonly secret?: undefined;
} | {
    readonly provider: string;
    readonly secret: string;
};

export type AgentEvent = {
    readonly type: 'session';
    readonly sessionId: string;
} | {
    readonly type: 'text';
    readonly text: string;
} | {
    readonly type: 'tool';
    readonly tool: string;
    readonly status: 'running' | 'completed' | 'error';
} | {
    readonly type: 'result';
    readonly text: string;
    readonly error?: string;
};

export interface AgentMount {
    readonly source: string;
    readonly target: string;
}

export type AgentName = keyof typeof agents;

export interface AgentRun {
    readonly text: string;
    readonly sessionId?: string;
    readonly error?: string;
}

export interface AgentServer extends Omit<InstalledAgent, 'binary'> {
    readonly url: string;
    readonly port: number;
    readonly password: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly reused: boolean;
    client<Client = unknown>(): Promise<Client>;
    stop(options?: CallOptions): Promise<void>;
}

export interface BootstrapOpencodeOptions extends Omit<BootstrapOptions, 'version'> {
    opencodeVersion?: string;
}

export interface BootstrapOptions extends CallOptions {
    envVars?: Environment;
    version?: string;
    port?: number;
    cwd?: string;
    password?: string;
    binary?: string;
    hostname?: '127.0.0.1' | '0.0.0.0';
    model?: string;
    config?: Readonly<Record<string, unknown>>;
    credentials?: readonly AgentCredential[];
    restart?: boolean;
    onProgress?: (progress: BootstrapProgress) => void;
    deadlineMs?: number;
}

export interface BootstrapProgress {
    readonly stage: BootstrapStage;
    readonly message: string;
}

export type BootstrapStage = 'inspect' | 'copy' | 'install' | 'start' | 'wait' | 'ready';

export interface FileDiff {
    readonly file: string;
    readonly patch: string;
    readonly additions: number;
    readonly deletions: number;
}

export interface FilePart {
    readonly type: 'file';
    readonly id: string;
    readonly name: string;
    readonly mime: string;
    readonly base64?: string;
}

export interface FollowOptions {
    readonly signal?: AbortSignal;
    readonly silentMs?: number;
    readonly lostMs?: number;
}

export type Headless = {
    readonly through: 'server';
    run(context: RunContext): AsyncGenerator<AgentEvent, void>;
} | {
    readonly through: 'program';
    args(options: {
        model?: string;
        sessionId?: string;
    }): string[];
    read(line: string): AgentEvent[];
};

export interface Health {
    readonly version?: string;
}

export type HelperLine = {
    readonly id: number;
    readonly result: unknown;
} | {
    readonly id: number;
    readonly error: {
        readonly message: string;
        readonly hint?: string;
    };
} | {
    readonly notice: string;
    readonly level: 'info' | 'warning' | 'error';
};

export interface HelperMethods {
    hello(params: {
        version: number;
        token: string;
        port?: number | undefined;
    }): {
        port: number;
    };
    create(params: {
        info: WorkspaceInfo;
        project: HomeProject;
    }): WorkspaceFacts;
    list(params: {
        project: HomeProject;
    }): WorkspaceFacts[];
    target(params: {
        info: WorkspaceInfo;
        project: HomeProject;
    }): Pick<WorkspaceTarget, 'url' | 'headers'>;
    remove(params: {
        info: WorkspaceInfo;
    }): null;
}

export interface HelperRequest {
    readonly id: number;
    readonly method: keyof HelperMethods;
    readonly params: unknown;
}

export interface HistoryOptions extends CallOptions {
    readonly before?: string;
    readonly limit?: number;
}

export interface HistoryPage {
    readonly messages: readonly SessionMessage[];
    readonly before?: string;
}

export interface HomeProject {
    readonly folder: string;
    readonly options: Omit<SandkastenPluginOptions, 'command'>;
    readonly model?: string;
    readonly providers: Readonly<Record<string, HomeProvider>>;
    readonly opencode: string;
}

export interface HomeProvider {
    readonly npm?: string;
    readonly name?: string;
    readonly models?: Readonly<Record<string, unknown>>;
    readonly baseUrl?: string;
}

export interface Hooks {
    config?: (config: OpencodeConfig) => Promise<void>;
}

export interface InstalledAgent {
    readonly agent: AgentName;
    readonly version: string;
    readonly binary: string;
    readonly directory: string;
}

export type MessagePart = TextPart | ToolPart | FilePart | OtherPart;

export interface ModelAddress {
    readonly url: string;
    readonly name?: string;
    readonly secret?: string;
    readonly header?: string;
}

export declare const OPENCODE_PORT = 7777;

export interface OpenSessionOptions extends CallOptions {
    readonly sessionId?: string;
    readonly forkOf?: string;
    readonly title?: string;
    readonly permission?: readonly PermissionRule[];
}

export interface OpenWorktreeOptions extends CallOptions {
    directory?: string;
    thread: string;
}

export interface OpencodeConfig {
    model?: string;
    provider?: Record<string, ProviderConfig | undefined>;
}

export interface OpencodeSession {
    readonly id: string;
    readonly server: SessionServer;
    prompt(prompt: SessionPrompt, options?: CallOptions): Promise<void>;
    has(messageId: string, options?: CallOptions): Promise<boolean>;
    message(messageId: string, options?: CallOptions): Promise<SessionMessage | undefined>;
    history(options?: HistoryOptions): Promise<HistoryPage>;
    follow(messageId: string, options?: FollowOptions): AsyncGenerator<SessionState, void>;
    status(options?: CallOptions): Promise<{
        readonly status: SessionStatus;
        readonly text?: string;
    }>;
    title(options?: CallOptions): Promise<string>;
    abort(options?: CallOptions): Promise<void>;
    permissions(options?: CallOptions): Promise<readonly PermissionRequest[]>;
    replyPermission(requestId: string, reply: 'once' | 'always' | 'reject', options?: ReplyOptions): Promise<boolean>;
    questions(options?: CallOptions): Promise<readonly QuestionRequest[]>;
    replyQuestion(requestId: string, answers: readonly string[][], options?: CallOptions): Promise<boolean>;
    rejectQuestion(requestId: string, options?: CallOptions): Promise<boolean>;
    diff(messageId: string, options?: CallOptions): Promise<readonly FileDiff[]>;
}

export interface OtherPart {
    readonly type: 'other';
    readonly id: string;
    readonly kind: string;
}

export interface PermissionRequest {
    readonly id: string;
    readonly sessionId: string;
    readonly permission: string;
    readonly patterns: readonly string[];
}

export interface PermissionRule {
    readonly permission: string;
    readonly pattern: string;
    readonly action: 'allow' | 'deny' | 'ask';
}

export interface PluginInput {
    readonly client: {
        readonly tui: {
            showToast(options: {
                body: {
                    title?: string;
                    message: string;
                    variant: 'info' | 'warning' | 'error';
                };
            }): Promise<unknown>;
        };
        readonly app: {
            log(options: {
                body: {
                    service: string;
                    level: 'info' | 'warn' | 'error';
                    message: string;
                };
            }): Promise<unknown>;
        };
    };
    readonly project: {
        readonly id: string;
    };
    readonly directory: string;
    readonly worktree: string;
    readonly experimental_workspace: {
        register(type: string, adapter: WorkspaceAdapter): void;
    };
}

export interface ProviderConfig {
    npm?: string;
    name?: string;
    models?: Record<string, unknown>;
    options?: {
        baseURL?: unknown;
    };
}

export interface QuestionRequest {
    readonly id: string;
    readonly sessionId: string;
    readonly questions: readonly SessionQuestion[];
}

export interface ReplyOptions extends CallOptions {
    readonly message?: string;
}

export interface RunAgentOptions extends BootstrapOptions {
    server?: AgentServer;
    sessionId?: string;
    onEvent?: (event: AgentEvent) => void;
    timeoutMs?: number;
}

export interface RunContext {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly directory: string;
    readonly prompt: string;
    readonly model: string | undefined;
    readonly sessionId: string | undefined;
    readonly signal: AbortSignal;
}

export interface SandboxOnly {
    readonly env: Readonly<Record<string, string>>;
    readonly directory: string;
    readonly permission: PermissionRule[];
}

export interface SandboxOnlyOptions {
    readonly server?: string;
    readonly mcp?: Readonly<Record<string, unknown>>;
    readonly config?: Readonly<Record<string, unknown>>;
    readonly alsoAllow?: readonly string[];
    readonly directory?: string;
}

export interface SandkastenPluginOptions {
    command?: readonly string[];
    provider?: string;
    model?: string;
    modelUrl?: string;
    credentials?: readonly string[];
    allow?: readonly string[];
    deny?: readonly string[];
    network?: 'none' | 'open' | Readonly<Record<string, unknown>>;
    sandbox?: {
        image?: string;
        runtime?: string;
        memoryMb?: number;
        vcpus?: number;
        diskMb?: number;
        idleStopMs?: number;
        lifetimeMs?: number;
    };
}

export type ServerAgentName = 'opencode';

export interface ServerModel {
    readonly id: string;
    readonly name: string;
}

export interface ServerSpec {
    args(port: number, hostname: string): string[];
    readonly listening: RegExp;
    readonly user: string;
    readonly userVariable: string;
    readonly passwordVariable: string;
}

export interface SessionFailure {
    readonly name: string;
    readonly message: string;
}

export interface SessionMessage {
    readonly id: string;
    readonly role: 'user' | 'assistant';
    readonly parentId?: string;
    readonly createdAt: number;
    readonly completedAt?: number;
    readonly finish?: string;
    readonly isSummary: boolean;
    readonly model?: string;
    readonly costUsd?: number;
    readonly error?: SessionFailure;
    readonly parts: readonly MessagePart[];
}

export interface SessionPrompt {
    readonly id: string;
    readonly text: string;
    readonly model?: string;
    readonly system?: string;
}

export interface SessionQuestion {
    readonly text: string;
    readonly header: string;
    readonly choices: ReadonlyArray<{
        readonly label: string;
        readonly description: string;
    }>;
    readonly isMultiple: boolean;
    readonly allowsText: boolean;
}

export interface SessionServer {
    readonly url: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly directory: string;
}

export interface SessionState {
    readonly status: SessionStatus;
    readonly statusText?: string;
    readonly messages: readonly SessionMessage[];
    readonly permissions: readonly PermissionRequest[];
    readonly questions: readonly QuestionRequest[];
    readonly title?: string;
    readonly failure?: SessionFailure;
}

export type SessionStatus = 'idle' | 'busy' | 'retry';

export interface TextPart {
    readonly type: 'text';
    readonly id: string;
    readonly text: string;
    readonly isSynthetic: boolean;
    readonly isComplete: boolean;
}

export interface ToolPart {
    readonly type: 'tool';
    readonly id: string;
    readonly tool: string;
    readonly status: 'pending' | 'running' | 'completed' | 'error';
    readonly title: string;
    readonly error?: string;
    readonly startedAt?: number;
    readonly endedAt?: number;
    readonly files: readonly FilePart[];
}

export interface WaitForHealthOptions {
    readonly maxAttempts?: number;
    readonly intervalMs?: number;
    readonly deadlineMs?: number;
    readonly headers?: Readonly<Record<string, string>>;
    readonly signal?: AbortSignal;
}

export interface WorkspaceAdapter {
    name: string;
    description: string;
    configure(info: WorkspaceInfo): Promise<WorkspaceInfo>;
    create(info: WorkspaceInfo): Promise<void>;
    list(): Promise<Array<Omit<WorkspaceInfo, 'id'>>>;
    remove(info: WorkspaceInfo): Promise<void>;
    target(info: WorkspaceInfo): Promise<WorkspaceTarget>;
}

export type WorkspaceFacts = Pick<WorkspaceInfo, 'name' | 'directory' | 'extra'>;

export interface WorkspaceInfo {
    id: string;
    type: string;
    name: string;
    branch: string | null;
    directory: string | null;
    extra: unknown;
    projectID: string;
}

export interface WorkspaceTarget {
    type: 'remote';
    url: string;
    headers: Record<string, string>;
}

export interface Worktree {
    readonly path: string;
    readonly branch: string;
    readonly created: boolean;
    remove(options?: CallOptions & {
        force?: boolean;
    }): Promise<boolean>;
}

declare const _default: {
    id: string;
    server: typeof server;
};

export declare function addMcpServer(server: SessionServer, name: string, config: Readonly<Record<string, unknown>>, { signal }?: CallOptions): Promise<void>;

export declare function agentMount(name: AgentName, options?: {
    version?: string;
}): AgentMount | undefined;

export declare const agents: {
    readonly opencode: Agent;
    readonly claude: Agent;
};

export declare function bootstrapAgent(handle: SandboxCore, agent: ServerAgentName, options?: BootstrapOptions): Promise<AgentServer>;
export declare function bootstrapAgent(handle: SandboxCore, agent: AgentName, options?: BootstrapOptions): Promise<AgentServer | InstalledAgent>;

export declare function bootstrapOpencode(handle: SandboxCore, options?: BootstrapOpencodeOptions): Promise<AgentServer>;

export declare function listModels(server: SessionServer, { signal }?: CallOptions): Promise<ServerModel[]>;

export declare function modelNetwork(options: ModelAddress): NetworkPolicy;

export declare function modelUrl({ url: given, name }: Pick<ModelAddress, 'url' | 'name'>): string;

export declare function newMessageId(now?: number): string;

export declare function openSession(server: SessionServer, { sessionId, forkOf, title, permission, signal }?: OpenSessionOptions): Promise<OpencodeSession>;

export declare function openWorktree(handle: SandboxCore, options: OpenWorktreeOptions): Promise<Worktree>;

export declare const protocolVersion = 1;

export declare function runAgent(handle: SandboxCore, name: AgentName, prompt: string, options?: RunAgentOptions): Promise<AgentRun>;

export declare function sandboxOnly(options?: SandboxOnlyOptions): Promise<SandboxOnly>;

declare function server(input: PluginInput, options?: SandkastenPluginOptions): Promise<Hooks>;

export declare function waitForHealth(url: string, options?: WaitForHealthOptions): Promise<Health>;
