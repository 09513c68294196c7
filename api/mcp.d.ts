// @sandkasten/mcp
//   CallToolOptions
//   CalledTool
//   HandleSourceOptions
//   HostFile
//   HttpServerOptions
//   Incarnation
//   OpenSandbox
//   RegistrySourceOptions
//   SandboxHttpServer
//   SandboxServerOptions
//   SandboxSource
//   SandboxState
//   Seen
//   StateOptions
//   ToolCaller
//   ToolContent
//   ToolResult
//   UseOptions
//   createSandboxServer
//   handleSource
//   registrySource
//   serveHttp
//   serveStdio

// @sandkasten/mcp/broker
//   Broker
//   BrokerCallerOptions
//   BrokerOptions
//   BrokerPlace
//   Handles
//   LaunchOptions
//   SandboxGrant
//   SavedTokens
//   brokerCaller
//   brokerPlace
//   createPlace
//   launchBroker
//   readTokenFile
//   readyLine
//   startBroker

// @sandkasten/mcp/install
//   AgentName
//   AgentSettings
//   InstallOptions
//   Installed
//   ServerCommand
//   agents
//   install
//   printed

export type AgentName = 'opencode' | 'claude' | 'codex' | 'cursor' | 'vscode';

export interface AgentSettings {
    readonly title: string;
    readonly files: readonly string[];
    readonly format: 'jsonc' | 'toml';
    readonly at: readonly string[];
    entry(server: ServerCommand): Readonly<Record<string, unknown>>;
}

export interface Broker extends AsyncDisposable {
    readonly url?: string;
    readonly ended: Promise<void>;
    close(): Promise<void>;
}

export interface BrokerCallerOptions {
    readonly address: string;
    readonly token: (options: {
        refused: boolean;
    }) => Promise<string>;
    readonly start?: () => Promise<void>;
}

export interface BrokerOptions {
    readonly registry: Registry;
    readonly place: BrokerPlace;
    readonly port?: number;
    readonly idleMs?: number;
    readonly onReport?: (line: string) => void;
}

export interface BrokerPlace {
    readonly folder: string;
    readonly socket: string;
    readonly handles: string;
    readonly tokens: string;
    readonly pid: string;
    readonly log: string;
}

export interface CallToolOptions {
    readonly signal: AbortSignal;
    readonly onProgress: (message: string) => void;
    readonly hostFile?: HostFile;
}

export interface CalledTool {
    readonly result: ToolResult;
    readonly incarnation?: Incarnation;
}

export interface HandleSourceOptions {
    readonly reopen?: () => Promise<SandboxHandle>;
    readonly directory?: string;
}

export declare class Handles {
    constructor(folder: string);
    create(grant: Omit<SandboxGrant, 'createdAt'>): Promise<string>;
    find(token: string): SandboxGrant | undefined;
    revokeAll(sandboxId: string): Promise<number>;
}

export interface HostFile {
    readonly name: string;
    readonly sizeBytes: number;
    stream(): AsyncIterable<Uint8Array>;
}

export interface HttpServerOptions extends SandboxServerOptions {
    readonly token: string;
    readonly port?: number;
    readonly host?: '127.0.0.1' | '::1';
}

export interface Incarnation {
    readonly count: number;
    readonly sandboxId: string;
    readonly snapshotAt?: string;
}

export interface InstallOptions {
    readonly server: ServerCommand;
    readonly project: string;
    readonly home: string;
}

export interface Installed {
    readonly file: string;
    readonly changed: boolean;
    readonly backup?: string;
}

export interface LaunchOptions {
    readonly place: BrokerPlace;
    readonly command: readonly string[];
    readonly timeoutMs?: number;
}

export interface OpenSandbox {
    readonly handle: SandboxHandle;
    readonly directory: string;
    readonly incarnation: Incarnation;
    readonly signal: AbortSignal;
    readonly processes: Map<string, StartedProcess>;
}

export interface RegistrySourceOptions {
    readonly name: string;
    readonly id?: string;
    readonly threadId?: string;
    readonly purpose?: string;
    readonly holdMs?: number;
}

export interface SandboxGrant {
    readonly sandboxId: string;
    readonly name: string;
    readonly scope: Scope;
    readonly createdAt: string;
}

export interface SandboxHttpServer extends AsyncDisposable {
    readonly url: string;
    close(): Promise<void>;
}

export interface SandboxServerOptions {
    readonly allowFolders?: readonly string[];
    readonly seen?: Seen;
    readonly cancelled?: (requestId: string | number) => AbortSignal | undefined;
}

export interface SandboxSource extends AsyncDisposable {
    use<T>(work: (sandbox: OpenSandbox) => Promise<T>, options?: UseOptions): Promise<T>;
    state(options?: StateOptions): Promise<SandboxState>;
    snapshot(options?: CallOptions & {
        name?: string;
    }): Promise<{
        snapshotId: string;
    }>;
}

export interface SandboxState {
    readonly name: string;
    readonly provider: string;
    readonly status: SandboxStatus;
    readonly directory?: string;
    readonly expiresAt?: string;
    readonly snapshotAt?: string;
    readonly problem?: string;
}

export declare class SavedTokens {
    constructor(folder: string);
    fileOf(sandbox: string): string;
    save(sandbox: string, token: string): Promise<string>;
    read(sandbox: string): Promise<string | undefined>;
    remove(sandbox: string): Promise<void>;
}

export interface Seen {
    incarnation?: Incarnation;
}

export interface ServerCommand {
    readonly command: string;
    readonly args: readonly string[];
    readonly env?: Readonly<Record<string, string>>;
}

export interface StartedProcess {
    readonly process: ProcessHandle;
    readonly cmd: string;
}

export interface StateOptions extends CallOptions {
    readonly refresh?: boolean;
}

export interface ToolCaller {
    call(name: string, input: unknown, options: CallToolOptions): Promise<CalledTool>;
}

export type ToolContent = {
    readonly type: 'text';
    readonly text: string;
} | {
    readonly type: 'image';
    readonly data: string;
    readonly mimeType: string;
} | {
    readonly type: 'resource';
    readonly resource: {
        readonly uri: string;
        readonly mimeType: string;
        readonly blob: string;
    };
};

export interface ToolResult {
    readonly content: readonly ToolContent[];
    readonly facts?: Readonly<Record<string, unknown>>;
    readonly isError?: boolean;
}

export interface UseOptions extends CallOptions {
    readonly repeatable?: boolean;
    readonly onProgress?: (message: string) => void;
    readonly onOpen?: (incarnation: Incarnation) => void;
}

export declare const agents: Readonly<Record<AgentName, AgentSettings>>;

export declare function brokerCaller(options: BrokerCallerOptions): ToolCaller;

export declare function brokerPlace(data: string): BrokerPlace;

export declare function createPlace(place: BrokerPlace): Promise<void>;

export declare function createSandboxServer(sandbox: SandboxSource | ToolCaller, options?: SandboxServerOptions): McpServer;

export declare function handleSource(handle: SandboxHandle, options?: HandleSourceOptions): SandboxSource;

export declare function install(agent: AgentName, options: InstallOptions): Promise<Installed>;

export declare function launchBroker({ place, command, timeoutMs }: LaunchOptions): Promise<void>;

export declare function printed(agent: AgentName, server: ServerCommand): string;

export declare function readTokenFile(file: string): Promise<string>;

export declare const readyLine = "ready";

export declare function registrySource(sandboxes: ScopedRegistry, options: RegistrySourceOptions): SandboxSource;

export declare function serveHttp(sandbox: SandboxSource | ToolCaller, { token, port, host, ...options }: HttpServerOptions): Promise<SandboxHttpServer>;

export declare function serveStdio(sandbox: SandboxSource | ToolCaller, options?: SandboxServerOptions): {
    close(): Promise<void>;
};

export declare function startBroker(options: BrokerOptions): Promise<Broker>;
