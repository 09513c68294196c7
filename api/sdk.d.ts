// @sandkasten/sdk
//   Ability
//   AbilityLevel
//   AbilityOf
//   AbilityParts
//   AllCapabilities
//   AutoSnapshotOptions
//   Beat
//   BeatFailure
//   Bytes
//   BytesSource
//   CallOptions
//   Capabilities
//   Clock
//   CommandResult
//   CommonCapabilities
//   CreateOption
//   CreateSandboxOpts
//   CreateVolumeOptions
//   DetachedCommandOptions
//   EndpointOptions
//   EndpointProtocol
//   Environment
//   ExitEvent
//   Failover
//   FailoverAccount
//   FailoverAttempt
//   FailoverOptions
//   FailoverProvider
//   FileChange
//   FileEntry
//   FileLines
//   FileStat
//   FileType
//   ForkOptions
//   GetOrCreateOpts
//   GetSandboxOpts
//   HandlePage
//   Hints
//   Isolation
//   KeepAlive
//   KeepAliveEnd
//   KeepAliveOptions
//   KnownRuntime
//   Leftover
//   ListOptions
//   ListSandboxesOpts
//   MkdirOptions
//   Needs
//   Network
//   NetworkAddressRule
//   NetworkHostRule
//   NetworkLimits
//   NetworkPolicy
//   NetworkPreset
//   NetworkPresetRule
//   NetworkRule
//   NetworkService
//   Offers
//   OpenShellOptions
//   OpenTerminalOptions
//   OutputBudget
//   OutputEvent
//   OutputOptions
//   Part
//   PartOf
//   ProcessCore
//   ProcessEvent
//   ProcessExit
//   ProcessHandle
//   ProcessInfo
//   ProcessSignal
//   ProcessStatus
//   ProcessStdin
//   ReadFileOptions
//   ReadLinesOptions
//   ReadStreamOptions
//   RequestMatch
//   RequestTransform
//   RestrictedAbility
//   RestrictedSandbox
//   Retry
//   RetryOptions
//   RetrySubject
//   RmOptions
//   RunCommandOptions
//   SandboxAbilities
//   SandboxActivity
//   SandboxByName
//   SandboxCore
//   SandboxEgress
//   SandboxEndpoint
//   SandboxError
//   SandboxErrorCode
//   SandboxErrorOptions
//   SandboxFiles
//   SandboxFilesCore
//   SandboxFilesWatch
//   SandboxFork
//   SandboxHandle
//   SandboxInfo
//   SandboxLifetime
//   SandboxPage
//   SandboxPause
//   SandboxPorts
//   SandboxProvider
//   SandboxProviderCore
//   SandboxReattach
//   SandboxResources
//   SandboxShell
//   SandboxShells
//   SandboxSnapshots
//   SandboxStatus
//   SandboxStop
//   SandboxTerminal
//   SandboxTerminals
//   SandboxUser
//   SecretOptions
//   SecretValue
//   SharedCapabilities
//   ShellExecOptions
//   ShellResult
//   SnapshotAdmin
//   SnapshotInfo
//   SnapshotOptions
//   SpawnOptions
//   StderrEvent
//   StdoutEvent
//   UploadFileOptions
//   VolumeAdmin
//   VolumeInfo
//   VolumeMount
//   WaitExitOptions
//   WaitOptions
//   WatchOptions
//   WriteFileOptions
//   errorTable
//   failover
//   keepAlive
//   placeholder
//   quoteArg
//   quoteArgs
//   retry
//   secret
//   supports
//   withRetry

// @sandkasten/sdk/provider
//   Access
//   ByteSource
//   Checked
//   CreateSpec
//   DriverProvider
//   FileBytes
//   FilesDriver
//   HeadTail
//   ListingSize
//   NormalNetwork
//   NormalPolicy
//   NormalRule
//   NormalTransform
//   OutputLog
//   ProcessDriver
//   ProcessSpec
//   Programs
//   ProviderDriver
//   ReachedEvent
//   ReachedTargets
//   SandboxDriver
//   abortable
//   abortedError
//   asBytes
//   checkCount
//   checkKnown
//   checkMs
//   checkRuntimes
//   checkSecretValue
//   chunksOf
//   concat
//   encode
//   errnoHint
//   gitCredentials
//   hasRuntime
//   isSecretName
//   mappedRuntime
//   matches
//   maybeDone
//   noRuntime
//   normalizeNetwork
//   onAbort
//   pageOf
//   quoteArg
//   quoteArgs
//   randomId
//   runtimeNames
//   secretLimits
//   streamOf
//   takeSource
//   throwIfAborted

// @sandkasten/sdk/internal
//   FolderDriver
//   PortForwards
//   ProcessIdentity
//   SandboxRecord
//   errnoOf
//   guarded
//   hostPrograms
//   identityOf
//   isAlive
//   isDamaged
//   needHostRuntime
//   readRecord
//   removeFolder
//   replaceFile
//   sweepLocks
//   translate
//   withLock
//   writeRecord

// @sandkasten/sdk/local
//   LocalCapabilities
//   LocalDriver
//   LocalProvider
//   LocalProviderOptions
//   localDriver

// @sandkasten/sdk/memory
//   ChildOptions
//   ChildProcess
//   Clock
//   CommandContext
//   CommandHandler
//   CommandMatcher
//   Fault
//   FaultPoint
//   FaultRule
//   ManualClock
//   MemoryCapabilities
//   MemoryProvider
//   MemoryProviderOptions
//   OutputWriter
//   RecordedCall
//   ShellHandler
//   ShellIo
//   ShellState
//   realClock

// @sandkasten/sdk/daemon
//   DaemonCapabilities
//   DaemonProvider
//   DaemonProviderOptions
//   daemonCapabilities

// @sandkasten/sdk/daytona
//   DaytonaCapabilities
//   DaytonaCreateOptions
//   DaytonaModule
//   DaytonaProvider
//   DaytonaProviderOptions
//   DaytonaRuntime

// @sandkasten/sdk/e2b
//   E2BCapabilities
//   E2BProvider
//   E2BProviderOptions
//   e2bCapabilities
//   e2bOptionsOf

// @sandkasten/sdk/sprites
//   SpritesCapabilities
//   SpritesProvider
//   SpritesProviderOptions
//   SpritesSdk
//   spritesCapabilities
//   spritesOptionsOf

// @sandkasten/sdk/hopx
//   HopxCapabilities
//   HopxCreateOptions
//   HopxModule
//   HopxProvider
//   HopxProviderOptions

// @sandkasten/sdk/ssh
//   Ssh2
//   SshCapabilities
//   SshProvider
//   SshProviderOptions
//   SshRunnerUse
//   sshOptionsOf
//   sshTargetOf

// @sandkasten/sdk/vercel
//   OidcTokenSource
//   OnSandkastenOptions
//   VercelCapabilities
//   VercelProvider
//   VercelProviderOptions
//   onSandkasten
//   vercelCapabilities
//   vercelOptionsOf
//   vercelRequestToken

// @sandkasten/sdk/client
//   Command
//   CommandInfo
//   ConnectionOptions
//   CreateSessionOptions
//   EgressEvent
//   EgressEventsOptions
//   EndAction
//   ExecOptions
//   ExecResult
//   ListSessionsOptions
//   Page
//   Policy
//   PortInfo
//   Problem
//   ProjectPolicy
//   RunOptions
//   RunResult
//   SandboxClient
//   SandboxError
//   SandboxErrorCode
//   SecretInfo
//   Session
//   SessionEvent
//   SessionFiles
//   SessionInfo
//   SessionStatus
//   SessionTerminal
//   SessionVolume
//   ShellInfo
//   SnapshotInfo
//   StartOptions
//   VolumeInfo
//   errorOf
//   errorOfResponse
//   errorTable

// @sandkasten/sdk/auto
//   AutoDetectOptions
//   Detection
//   DetectionRow
//   FieldFormat
//   FieldOptions
//   KindOptions
//   ProviderContext
//   ProviderField
//   ProviderKind
//   ProviderSettings
//   SecretSubject
//   autoDetectProvider
//   createProvider
//   defineProviderKind
//   detectProvider
//   detectionTable
//   providerKinds
//   requiredSets
//   settingsFromVariables

// @sandkasten/sdk/recipes
//   CloneRepoOpts
//   CloneResult
//   Conflict
//   GitDepth
//   OnProgress
//   ProgressEvent
//   PullBranchResult
//   PullChangesOpts
//   PullPatchResult
//   PullResult
//   PulledFile
//   RecipeSandbox
//   Skipped
//   UploadProjectOpts
//   UploadResult
//   cloneRepo
//   pullChanges
//   uploadProject

// @sandkasten/sdk/executor
//   CallOptions
//   CommandResult
//   ExecuteOptions
//   ExecuteResult
//   ExecutorKeepAliveOptions
//   ExecutorProvider
//   GetSandboxExecutorOptions
//   LocalSandboxExecutor
//   LocalSandboxExecutorOptions
//   Opening
//   ProviderSandboxExecutor
//   ProviderSandboxExecutorOptions
//   ReadOptions
//   SandboxExecutor
//   SandboxTool
//   SandboxToolsOptions
//   ToolInputSchema
//   ToolProperty
//   VercelSandboxExecutor
//   VercelSandboxExecutorOptions
//   defaultAllowedCommands
//   getSandboxExecutor
//   sandboxTools

// @sandkasten/sdk/testing
//   Behaviour
//   BehaviourResult
//   Command
//   CommandKit
//   ConformanceOptions
//   ConformanceReport
//   EgressTargets
//   Limits
//   NetworkTarget
//   OptionalProgram
//   PosixCommandsOptions
//   TestRunner
//   VolumeBehaviour
//   VolumeConformanceOptions
//   VolumeTrial
//   VolumesUnderTest
//   behaviours
//   conformance
//   defaultLimits
//   memoryCommands
//   memoryEgress
//   posixCommands
//   runConformance
//   runVolumeBehaviour
//   volumeBehaviours
//   volumeConformance

export type Ability = 'stdin' | 'mergedOutput' | 'orderedOutput' | 'reattach' | 'shell' | 'terminal' | 'ports' | 'watch' | 'stop' | 'pause' | 'snapshot' | 'fork' | 'lifetime' | 'activity' | 'egress';

export type AbilityLevel = 'native' | 'emulated';

export type AbilityOf<C extends Capabilities> = {
    [A in keyof C]: undefined extends C[A] ? never : A;
}[keyof C] & Ability;

export interface AbilityParts<C extends Capabilities = Capabilities> {
    stdin: {
        process: ProcessStdin;
    };
    mergedOutput: object;
    orderedOutput: object;
    reattach: {
        sandbox: SandboxReattach<C>;
    };
    shell: {
        sandbox: SandboxShells;
    };
    terminal: {
        sandbox: SandboxTerminals;
    };
    ports: {
        sandbox: SandboxPorts;
    };
    watch: {
        files: SandboxFilesWatch;
    };
    stop: {
        sandbox: SandboxStop;
    };
    pause: {
        sandbox: SandboxPause;
    };
    snapshot: {
        sandbox: SandboxSnapshots;
        provider: SnapshotAdmin;
    };
    fork: {
        sandbox: SandboxFork<C>;
    };
    lifetime: {
        sandbox: SandboxLifetime;
    };
    activity: {
        sandbox: SandboxActivity;
    };
    egress: {
        sandbox: SandboxEgress;
    };
}

type Absent<Method, A extends Ability> = Method extends (...args: infer Args) => infer Result ? (this: Needs<A>, ...args: Args) => Result : Method;

export interface Access {
    readonly writablePaths: readonly string[];
    readonly user: 'root' | 'other';
    readonly rootAvailable: boolean;
}

export type AllCapabilities = {
    readonly [A in Ability]: AbilityLevel;
};

export type AnyProvider = SandboxProvider;

export type AnySandbox = SandboxHandle;

export interface AutoDetectOptions {
    env?: Environment;
    onDecision?: (detection: Detection) => void;
}

export interface AutoSnapshotOptions extends Pick<SnapshotOptions, 'name'> {
    beforeMs?: number;
    timeoutMs?: number;
}

export interface Beat {
    readonly extended: boolean;
    readonly expiresAt?: Date;
}

export interface BeatFailure {
    readonly during: 'beat' | 'snapshot';
    readonly failures: number;
    readonly retryInMs: number;
}

export interface Behaviour {
    readonly id: string;
    readonly group: string;
    readonly name: string;
    readonly needs?: readonly Ability[];
    readonly options?: readonly CreateOption[];
    readonly program?: OptionalProgram;
    readonly fact?: OptionalFact;
    run(trial: Trial): Promise<void>;
}

export interface BehaviourResult {
    readonly id: string;
    readonly group: string;
    readonly name: string;
    readonly status: 'passed' | 'failed' | 'excused';
    readonly note?: string;
    readonly error?: Error;
    readonly durationMs: number;
}

export interface ByteSource {
    readInto(view: Uint8Array): Promise<number>;
    lend(take: (piece: Uint8Array, done: () => void) => void): Promise<void>;
    cancel(): void;
}

export interface Bytes extends Uint8Array<ArrayBuffer> {
    toString(encoding?: 'utf8' | 'utf-8' | 'latin1' | 'hex' | 'base64'): string;
}

export type BytesSource = string | Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array | string>;

export interface CallOptions {
    signal?: AbortSignal | undefined;
}

export interface CallOptions {
    signal?: AbortSignal;
}

type Callback<T> = (error: (Error & {
    code?: number;
}) | null | undefined, result: T) => void;

type CanBeKept<C extends Capabilities> = true extends Offers<C, 'lifetime'> | Offers<C, 'activity'> ? unknown : {
    readonly capabilities: {
        readonly lifetime: AbilityLevel;
    } | {
        readonly activity: AbilityLevel;
    };
};

export type Capabilities = {
    readonly [A in Ability]?: AbilityLevel;
};

export type Checked<Options extends {
    env?: unknown;
}> = Omit<Options, 'env'> & {
    readonly env: Readonly<Record<string, string>>;
};

export interface ChildOptions {
    session?: boolean;
}

export interface ChildProcess {
    readonly exited: Promise<number>;
    kill(signal?: ProcessSignal): void;
}

export interface Clock {
    now(): number;
    elapsed?(): number;
    after(ms: number, callback: () => void): () => void;
}

export interface CloneRepoOpts extends CallOptions {
    url: string;
    token?: string;
    username?: string;
    branch?: string;
    depth?: number;
    path?: string;
}

export interface CloneResult {
    path: string;
    head?: string;
    branch?: string;
}

export declare class Command {
    readonly execId: string;
    constructor(http: Http, sessionPath: string, execId: string, first?: Response);
    info({ waitMs, signal }?: CallOptions & {
        waitMs?: number;
    }): Promise<CommandInfo>;
    output({ after, signal }?: OutputOptions): AsyncGenerator<ProcessEvent>;
    wait<T extends RunResult | ExecResult>(options?: CallOptions & Pick<ShellExecOptions, 'onOutput'>): Promise<T>;
    signal(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>;
    write(data: string | Uint8Array, options?: CallOptions & {
        eof?: boolean | undefined;
    }): Promise<void>;
    closeStdin(options?: CallOptions): Promise<void>;
}

export interface Command {
    readonly cmd: string;
    readonly args: readonly string[];
}

export interface CommandContext {
    readonly cmd: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly sandboxId: string;
    readonly stdin: Pipe;
    readonly stdout: OutputWriter;
    readonly stderr: OutputWriter;
    readonly files: SandboxFilesCore;
    readonly clock: {
        now(): number;
        sleep(ms: number): Promise<void>;
    };
    readonly signal: AbortSignal;
    trap(signal: ProcessSignal, handler: () => void): void;
    raise(signal: string): never;
    spawnChild(cmd: string, args?: readonly string[], options?: ChildOptions): ChildProcess;
}

export type CommandHandler = (context: CommandContext) => unknown;

export interface CommandInfo {
    execId: string;
    kind: 'exec' | 'run';
    status: 'running' | 'done' | 'lost';
    shell?: string;
    command: string | string[];
    detached: boolean;
    incarnation: number;
    createdAt: Date;
    endedAt?: Date;
    result?: RunResult | ExecResult;
}

export interface CommandKit {
    print(text: string): Command;
    printError(text: string): Command;
    exit(code: number): Command;
    die(signal: string): Command;
    copyInput(): Command;
    printEnv(name: string): Command;
    printDir(): Command;
    printArgs(args: readonly string[]): Command;
    bytes(): Command;
    wait(): Command;
    waitTrapped(): Command;
    relay(): Command;
    flood(bytes: number, marker?: string, gate?: string): Command;
    floodBoth(bytes: number, errorBytes?: number): Command;
    gate(path: string): Command;
    splitCharacter(path: string): Command;
    tree(marker: string, shape?: TreeShape): Command;
    afterTree(marker: string): Command;
    daemon(marker: string): Command;
    leaveChild(): Command;
    userId(): Command;
    readonly script: string;
    readonly missing: string;
    server?(port: number, body: string): Command;
    connect?(host: string, port: number): Command;
    version?(program: RuntimeProgram): Command;
}

export type CommandMatcher = string | ((call: {
    cmd: string;
    args: readonly string[];
}) => boolean);

interface CommandOptions extends CallOptions {
    cmd: string;
    args?: readonly string[];
    env?: Environment;
    cwd?: string;
    timeoutMs?: number;
    output?: 'separate' | 'merged';
    onStdout?: (text: string) => void;
    onStderr?: (text: string) => void;
}

export interface CommandResult {
    exitCode: number;
    stdout: string;
    stderr: string;
    signal?: string;
    timedOut: boolean;
    truncated: boolean;
    oom?: boolean;
    durationMs: number;
}

export declare class Commands {
    add(matcher: CommandMatcher, handler: CommandHandler): void;
    find(cmd: string, args: readonly string[]): CommandHandler | undefined;
}

export type CommonCapabilities<P extends readonly SandboxProvider[]> = P extends readonly [
    infer First extends SandboxProvider,
    ...infer Rest extends SandboxProvider[]
] ? Rest['length'] extends 0 ? {
    readonly [A in AbilityOf<First['capabilities']>]: AbilityLevel;
} : SharedCapabilities<First['capabilities'], CommonCapabilities<Rest>> : P[number]['capabilities'];

export interface Conflict {
    path: string;
    reason: string;
    localSha256?: string;
    sandboxSha256?: string;
}

export interface ConformanceOptions {
    provider: () => SandboxProvider | Promise<SandboxProvider>;
    commands?: CommandKit | (() => CommandKit);
    reopen?: () => SandboxProvider | Promise<SandboxProvider>;
    without?: {
        readonly [What in OptionalProgram | OptionalFact | 'reopen' | 'leftovers']?: string;
    };
    leftovers?: (sandboxId: string) => Promise<readonly string[]> | readonly string[];
    egress?: EgressTargets;
    runtimes?: readonly string[];
    only?: readonly string[] | ((behaviour: Behaviour) => boolean);
    limits?: Partial<Limits>;
}

export interface ConformanceReport {
    readonly provider: string;
    readonly results: readonly BehaviourResult[];
    readonly passed: number;
    readonly failed: readonly BehaviourResult[];
    readonly excused: readonly BehaviourResult[];
    readonly leftovers?: Error;
}

export interface ConnectionOptions {
    url?: string | undefined;
    baseUrl?: string | undefined;
    apiKey?: string | undefined;
    fetch?: typeof globalThis.fetch;
}

export interface Content {
    readonly chunks: readonly Uint8Array[];
    readonly size: number;
}

export type CreateOption = Exclude<keyof CreateSandboxOpts, 'signal' | 'timeout'>;

export interface CreateSandboxOpts extends CallOptions {
    name?: string;
    label?: string;
    labels?: Readonly<Record<string, string>>;
    envVars?: Environment;
    lifetimeMs?: number;
    timeout?: number;
    snapshotId?: string;
    image?: string;
    runtime?: KnownRuntime | (string & {});
    ports?: readonly number[];
    resources?: SandboxResources;
    user?: SandboxUser;
    network?: Network;
    repo?: string;
    gitToken?: string;
    providerOptions?: Readonly<Record<string, unknown>>;
}

export interface CreateSessionOptions extends CallOptions {
    image?: string;
    runtime?: string;
    ttlSeconds?: number;
    onIdle?: EndAction;
    lifetimeSeconds?: number;
    onLifetime?: EndAction;
    wakeOnUse?: boolean;
    snapshotId?: string;
    name?: string;
    labels?: Readonly<Record<string, string>>;
    env?: Environment;
    limits?: {
        cpu?: number;
        memoryMb?: number;
        pids?: number;
        diskMb?: number;
    };
    networkMode?: 'none' | 'open';
    network?: Network;
    user?: 'root';
    tmp?: 'disk' | 'memory';
    volumes?: ReadonlyArray<{
        name: string;
        path: string;
        readOnly?: boolean;
    }>;
    idempotencyKey?: string;
    extra?: Readonly<Record<string, unknown>>;
}

export interface CreateSpec extends Omit<CreateSandboxOpts, 'signal' | 'timeout' | 'labels' | 'envVars' | 'network'> {
    readonly labels: Readonly<Record<string, string>>;
    readonly envVars: Readonly<Record<string, string>>;
    readonly network?: NormalNetwork;
    readonly deferReady: boolean;
}

export interface CreateVolumeOptions extends CallOptions {
    readonly limitMb?: number;
}

export interface DaemonCapabilities {
    readonly stdin: 'native';
    readonly mergedOutput: 'native';
    readonly ports: 'native';
    readonly reattach: 'native';
    readonly shell: 'native';
    readonly terminal: 'native';
    readonly watch: 'native';
    readonly stop: 'native';
    readonly pause: 'native';
    readonly snapshot: 'native';
    readonly fork: 'native';
    readonly lifetime: 'native';
    readonly egress: 'native';
}

export interface DaemonConnection {
    readonly url: string;
    readonly apiKey: string;
    readonly fetch?: typeof globalThis.fetch;
}

export declare class DaemonProvider extends DriverProvider<DaemonCapabilities> {
    readonly volumes: VolumeAdmin;
    constructor(options?: DaemonProviderOptions);
}

export type DaemonProviderOptions = ConnectionOptions;

export interface DaytonaCapabilities {
    readonly stdin: 'emulated';
    readonly mergedOutput: 'emulated';
    readonly reattach: 'emulated';
    readonly shell: 'emulated';
    readonly terminal: 'emulated';
    readonly ports: 'native';
    readonly stop: 'native';
    readonly pause: 'native';
    readonly snapshot: 'native';
    readonly fork: 'native';
    readonly activity: 'native';
    readonly egress: 'native';
}

export interface DaytonaClient {
    create(params: never, options?: {
        timeout?: number;
    }): Promise<DaytonaSandboxObject>;
    get(idOrName: string): Promise<DaytonaSandboxObject>;
    list(query?: {
        labels?: Record<string, string>;
        limit?: number;
    }): AsyncIterable<DaytonaSandboxObject>;
    readonly snapshot: {
        list(page?: number, limit?: number): Promise<{
            items: DaytonaSnapshot[];
            totalPages: number;
        }>;
        delete(idOrName: string): Promise<void>;
    };
    [Symbol.asyncDispose](): Promise<void>;
}

export interface DaytonaClientConfig {
    apiKey?: string;
    jwtToken?: string;
    organizationId?: string;
    apiUrl?: string;
    target?: string;
    requestTimeoutMs?: number;
    useDeprecatedPolling?: boolean;
}

export interface DaytonaCreateOptions {
    autoStopInterval?: number;
    autoPauseInterval?: number;
    autoArchiveInterval?: number;
    autoDeleteInterval?: number;
    ttlMinutes?: number;
    ephemeral?: boolean;
    public?: boolean;
    user?: string;
    networkBlockAll?: boolean;
    networkAllowList?: string;
    domainAllowList?: string;
    volumes?: readonly unknown[];
    secrets?: Readonly<Record<string, string>>;
}

export interface DaytonaModule {
    readonly Daytona: new (config: DaytonaClientConfig) => DaytonaClient;
}

export interface DaytonaNetwork {
    networkBlockAll?: boolean;
    networkAllowList?: string;
    domainAllowList?: string;
}

export declare class DaytonaProvider extends DriverProvider<DaytonaCapabilities> {
    constructor(options?: DaytonaProviderOptions);
    refreshActivity(sandboxId: string, options?: CallOptions): Promise<void>;
    getSignedUrl(sandboxId: string, port: number, options?: CallOptions & {
        expiresInSeconds?: number;
    }): Promise<string>;
    [Symbol.asyncDispose](): Promise<void>;
}

export interface DaytonaProviderOptions {
    apiKey?: string;
    jwtToken?: string;
    organizationId?: string;
    apiUrl?: string;
    target?: string;
    runtimes?: Readonly<Record<string, DaytonaRuntime>>;
    sdk?: DaytonaModule | (() => Promise<DaytonaModule>);
    requestTimeoutMs?: number;
    startTimeoutMs?: number;
    env?: Readonly<Record<string, string | undefined>>;
}

export type DaytonaRuntime = string | {
    readonly image: string;
};

export interface DaytonaSandboxObject {
    readonly id: string;
    readonly name?: string;
    readonly state?: string;
    readonly labels?: Record<string, string>;
    readonly networkBlockAll?: boolean;
    readonly networkAllowList?: string;
    readonly domainAllowList?: string;
    readonly errorReason?: string;
    readonly recoverable?: boolean;
    readonly createdAt?: string;
    readonly autoDestroyAt?: string;
    readonly process: {
        executeCommand(command: string, cwd?: string, env?: Record<string, string>, timeoutSeconds?: number): Promise<{
            exitCode: number;
            result: string;
        }>;
    };
    readonly fs: {
        uploadFileStream(source: unknown, remotePath: string, options?: {
            signal?: AbortSignal;
            timeout?: number;
        }): Promise<void>;
        downloadFileStream(remotePath: string, options?: {
            signal?: AbortSignal;
            timeout?: number;
        }): Promise<AsyncIterable<Uint8Array>>;
    };
    refreshData(): Promise<void>;
    refreshActivity(): Promise<void>;
    updateNetworkSettings(settings: DaytonaNetwork): Promise<void>;
    start(timeoutSeconds?: number): Promise<void>;
    stop(timeoutSeconds?: number): Promise<void>;
    pause(timeoutSeconds?: number): Promise<void>;
    recover(timeoutSeconds?: number): Promise<void>;
    fork(params?: {
        name?: string;
    }, timeoutSeconds?: number): Promise<DaytonaSandboxObject>;
    delete(timeoutSeconds?: number): Promise<void>;
    setLabels(labels: Record<string, string>): Promise<unknown>;
    createSnapshot(name: string, timeoutSeconds?: number): Promise<void>;
    getPreviewLink(port: number): Promise<{
        url: string;
        token: string;
    }>;
    getSignedPreviewUrl(port: number, expiresInSeconds?: number): Promise<{
        url: string;
    }>;
}

export interface DaytonaSnapshot {
    readonly name: string;
    readonly general?: boolean;
    readonly size?: number | null;
    readonly createdAt?: Date | string;
    readonly sourceSandboxId?: string | null;
}

export interface DetachedCommandOptions extends SpawnOptions {
    detached: true;
}

export interface Detection {
    readonly provider?: string;
    readonly decidedBy: readonly string[];
    readonly reason: string;
    readonly alsoSet: readonly string[];
    readonly halfSet: ReadonlyArray<{
        readonly provider: string;
        readonly missing: readonly string[];
    }>;
    readonly notIncluded: readonly string[];
    readonly install?: string;
}

export interface DetectionRow {
    readonly provider: string;
    readonly variables: ReadonlyArray<readonly string[]>;
    readonly optional?: readonly string[];
    readonly sdk?: string;
    readonly make?: (env: SetVariables) => SandboxProvider;
}

export type Draft = Omit<Behaviour, 'group'>;

export declare class DriverProvider<C extends Capabilities> implements SandboxProviderCore<C>, SnapshotAdmin {
    readonly name: string;
    readonly isolation: Isolation;
    readonly capabilities: C;
    readonly createOptions: ReadonlySet<CreateOption>;
    readonly snapshotInterrupts: boolean;
    constructor(driver: ProviderDriver<C>);
    create(options?: CreateSandboxOpts): Promise<SandboxHandle<C>>;
    get(sandbox: string | SandboxByName, options?: GetSandboxOpts): Promise<SandboxHandle<C>>;
    getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>>;
    list(options?: ListSandboxesOpts): Promise<SandboxPage>;
    listHandles(options?: ListSandboxesOpts): Promise<HandlePage<C>>;
    destroy(sandboxId: string, options?: CallOptions): Promise<boolean>;
    healthCheck(options?: CallOptions): Promise<boolean>;
    listSnapshots(this: SnapshotOwner<C>, options?: CallOptions): Promise<SnapshotInfo[]>;
    deleteSnapshot(this: SnapshotOwner<C>, snapshotId: string, options?: CallOptions): Promise<boolean>;
}

export interface E2BCapabilities {
    readonly stdin: 'native';
    readonly mergedOutput: 'emulated';
    readonly reattach: 'emulated';
    readonly shell: 'emulated';
    readonly terminal: 'native';
    readonly ports: 'native';
    readonly watch: 'native';
    readonly stop: 'native';
    readonly pause: 'native';
    readonly snapshot: 'native';
    readonly fork: 'native';
    readonly lifetime: 'native';
    readonly egress: 'native';
}

export declare class E2BProvider extends DriverProvider<E2BCapabilities> {
    constructor(options?: E2BProviderOptions);
}

export interface E2BProviderOptions {
    apiKey?: string;
    apiUrl?: string;
    sandboxUrl?: string;
    domain?: string;
    template?: string;
    runtimes?: Readonly<Record<string, string>>;
    requestTimeoutMs?: number;
    secrets?: SecretSource;
    sdk?: unknown;
    env?: Readonly<Record<string, string | undefined>>;
}

export interface EgressEvent {
    seq: number;
    sessionId: string;
    at: Date;
    kind: 'tcp' | 'tls' | 'http' | 'dns' | 'udp' | 'icmp' | 'other';
    verdict: 'allowed' | 'denied' | 'audit' | 'error';
    host?: string;
    address?: string;
    port?: number;
    rule?: string;
    reason?: string;
    bytesIn: number;
    bytesOut: number;
    durationMs: number;
    method?: string;
    path?: string;
    status?: number;
}

export interface EgressEventsOptions extends CallOptions {
    after?: number;
    verdict?: EgressEvent['verdict'];
    follow?: boolean;
    limit?: number;
}

export interface EgressTargets {
    allowed: NetworkTarget;
    denied: NetworkTarget;
}

export type EndAction = 'stop' | 'snapshot-and-stop' | 'pause' | 'destroy';

export interface EndpointOptions extends CallOptions {
    protocol?: EndpointProtocol;
}

export type EndpointProtocol = 'http' | 'https' | 'ws' | 'wss';

type Environment = Readonly<Record<string, string | undefined>>;

export type Environment = Readonly<Record<string, string | undefined>>;

export interface ExecOptions extends CallOptions {
    timeoutMs?: number;
    shell?: string;
    onOutput?: (text: string) => unknown;
    maxOutputBytes?: number;
    execId?: string;
}

export interface ExecResult {
    exitCode: number;
    cwd: string;
    output: string;
    truncated: boolean;
    durationMs: number;
    timedOut: boolean;
    shellRestarted: boolean;
    warning?: string;
}

export interface ExecuteOptions extends CallOptions {
    cwd?: string | undefined;
    env?: Environment | undefined;
    timeout?: number | undefined;
    sudo?: boolean | undefined;
    maxOutputBytes?: number | undefined;
}

export interface ExecuteResult extends CommandResult {
    reopened?: Opening;
}

export interface ExecutorKeepAliveOptions extends Pick<KeepAliveOptions, 'leaseMs' | 'everyMs' | 'onError' | 'clock'> {
    idleMs?: number;
    autoSnapshot?: boolean;
}

export type ExecutorProvider = Pick<SandboxProviderCore<never>, 'name' | 'createOptions' | 'list' | 'destroy'> & {
    getOrCreate(options: CreateSandboxOpts & {
        name: string;
        onResume?: () => void;
    }): Promise<SandboxCore>;
    deleteSnapshot?(snapshotId: string): Promise<boolean>;
};

export interface ExitEvent extends ProcessExit {
    readonly seq: number;
    readonly type: 'exit';
}

type Facet = 'sandbox' | 'files' | 'process' | 'provider';

export interface Failover extends AsyncDisposable {
    explain(sandboxOrError: object): FailoverAccount | undefined;
    sweep(options?: CallOptions): Promise<Leftover[]>;
}

export declare class FailoverAccount {
    readonly attempts: readonly FailoverAttempt[];
    readonly chosen?: string;
    readonly stopped?: string;
    constructor(attempts: readonly FailoverAttempt[], stopped?: string);
    toString(): string;
}

export interface FailoverAttempt {
    readonly provider: string;
    readonly place: number;
    readonly outcome: 'chosen' | 'failed';
    readonly durationMs: number;
    readonly code?: SandboxErrorCode;
    readonly message?: string;
    readonly leftovers?: string;
}

export interface FailoverOptions {
    also?: ReadonlyArray<'quota_exceeded' | 'disk_full'>;
    adapt?: (options: CreateSandboxOpts, provider: string) => CreateSandboxOpts;
    attemptTimeoutMs?: number;
    onChoice?: (account: FailoverAccount) => void;
    onLeftover?: (leftover: Leftover) => void;
    acceptDuplicateNames?: boolean;
    acceptNoIsolation?: boolean;
    clock?: Clock;
}

export type FailoverProvider<C extends Capabilities> = SandboxProvider<C> & Failover;

export interface Fault {
    readonly hits: number;
    remove(): void;
}

export interface FaultHit {
    through<T>(items: AsyncIterable<T>): AsyncIterable<T>;
}

export type FaultPoint = FileOperation | 'create' | 'get' | 'find' | 'list' | 'destroy' | 'health' | 'info' | 'spawn' | 'output' | 'kill' | 'processStatus' | 'writeStdin' | 'closeStdin' | 'getProcess' | 'listProcesses' | 'openShell' | 'getEndpoint' | 'stop' | 'start' | 'pause' | 'resume' | 'snapshot' | 'fork' | 'extendTimeout' | 'setNetwork' | 'listSnapshots' | 'deleteSnapshot';

export interface FaultRule {
    on: FaultPoint;
    sandboxId?: string;
    after?: number;
    times?: number;
    delayMs?: number;
    error?: SandboxErrorCode | Error;
    cut?: boolean;
    afterBytes?: number;
}

export declare class Faults {
    constructor(clock: Clock);
    add(rule: FaultRule): Fault;
    enter(operation: FaultPoint, sandboxId: string | undefined, signal?: AbortSignal): Promise<FaultHit>;
    take(operation: FaultPoint, sandboxId: string | undefined): FaultRule | undefined;
}

export type FieldFormat = 'url' | 'port' | 'lines';

export interface FieldOptions extends Pick<ProviderField, 'variable' | 'secret' | 'description' | 'format'> {
    readonly flag?: string;
}

export type FileBytes = AsyncIterable<Uint8Array> & Partial<ByteSource>;

export interface FileChange {
    readonly type: 'created' | 'changed' | 'removed';
    readonly path: string;
}

export interface FileEntry extends FileStat {
    readonly name: string;
    readonly path: string;
}

export interface FileLines {
    readonly lines: string[];
    readonly startLine: number;
    readonly cutLines: number[];
    readonly more: boolean;
    readonly totalLines?: number;
}

export type FileOperation = 'readStream' | 'writeFile' | 'appendFile' | 'listFiles' | 'stat' | 'mkdir' | 'rename' | 'rm' | 'chmod' | 'symlink' | 'readlink' | 'watch';

export interface FileStat {
    readonly type: FileType;
    readonly size: number;
    readonly mode?: number;
    readonly mtimeMs?: number;
    readonly uid?: number;
    readonly gid?: number;
}

export type FileType = 'file' | 'directory' | 'symlink' | 'other';

export interface FilesDriver {
    readStream(path: string, range: {
        start: number;
        end?: number;
    }, call: CallOptions): Promise<FileBytes>;
    write(path: string, chunks: AsyncIterable<Uint8Array>, options: {
        mode?: number;
        append: boolean;
    }, call: CallOptions): Promise<void>;
    list(path: string, options: {
        recursive: boolean;
    }, call: CallOptions): Promise<FileEntry[]>;
    stat(path: string, options: {
        follow: boolean;
    }, call: CallOptions): Promise<FileStat>;
    mkdir(path: string, options: {
        recursive: boolean;
        mode?: number;
    }, call: CallOptions): Promise<void>;
    rename(from: string, to: string, call: CallOptions): Promise<void>;
    rm(path: string, options: {
        recursive: boolean;
        force: boolean;
    }, call: CallOptions): Promise<void>;
    chmod(path: string, mode: number, call: CallOptions): Promise<void>;
    symlink(target: string, path: string, call: CallOptions): Promise<void>;
    readlink(path: string, call: CallOptions): Promise<string>;
    shareFile?(localPath: string, path: string, call: CallOptions): Promise<boolean>;
    watch?(path: string, options: {
        recursive: boolean;
    }, call: CallOptions): Promise<AsyncIterable<FileChange>>;
}

export interface FilesHost {
    readonly vfs: Vfs;
    enter(operation: FileOperation, call: CallOptions): Promise<FaultHit>;
}

export declare abstract class FolderDriver<C extends Capabilities> implements ProviderDriver<C> {
    abstract readonly name: string;
    abstract readonly isolation: Isolation;
    abstract readonly capabilities: C;
    abstract readonly createOptions: readonly CreateOption[];
    abstract readonly snapshotInterrupts: boolean;
    constructor(root: string);
    protected plan(_spec: CreateSpec): Promise<SandboxRecord['extra']>;
    protected fill(_folder: string, _record: SandboxRecord, _spec: CreateSpec): Promise<void>;
    protected abstract boot(folder: string, record: SandboxRecord): Promise<void>;
    protected abstract halt(folder: string, record: SandboxRecord): Promise<void>;
    protected mend(_folder: string, record: SandboxRecord): Promise<SandboxRecord>;
    protected release(_folder: string, _record: SandboxRecord): Promise<void>;
    protected abandon(_folder: string, _sandboxId: string): Promise<void>;
    protected abstract lives(folder: string, record: SandboxRecord): Promise<boolean>;
    protected abstract handle(folder: string, record: SandboxRecord): SandboxDriver;
    protected get root(): string;
    protected folderOf(sandboxId: string): string;
    create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver>;
    protected make(spec: CreateSpec, extra: SandboxRecord['extra'], { signal }: CallOptions): Promise<SandboxDriver>;
    sweep(): Promise<string[]>;
    open(sandboxId: string, { resume }: {
        resume: boolean;
    }, { signal }: CallOptions): Promise<SandboxDriver>;
    find(name: string): Promise<string | undefined>;
    list(filter: ListSandboxesOpts): Promise<SandboxPage>;
    destroy(sandboxId: string): Promise<boolean>;
    health(): Promise<boolean>;
    current(sandboxId: string): Promise<SandboxRecord>;
    check(sandboxId: string, incarnation: string): Promise<SandboxRecord>;
    info(sandboxId: string): Promise<SandboxInfo>;
    stop(sandboxId: string, incarnation: string, end?: {
        crashed?: true;
    }): Promise<SandboxRecord>;
    start(sandboxId: string): Promise<SandboxRecord>;
    extend(sandboxId: string, ms: number): Promise<void>;
    handOver(sandboxId: string, to: Pick<SandboxRecord, 'labels' | 'envVars'>): Promise<void>;
    ready(sandboxId: string): Promise<void>;
    protected prepare(): Promise<void>;
    protected notFound(sandboxId: string): SandboxError;
    protected interrupted(sandboxId: string): SandboxError;
    close(): Promise<void>;
    protected change(sandboxId: string, change: (record: SandboxRecord) => SandboxRecord | Promise<SandboxRecord>, undo?: (changed: SandboxRecord) => Promise<void>): Promise<SandboxRecord>;
}

export interface ForkOptions extends CallOptions {
    count?: number;
}

export interface GetOrCreateOpts<C extends Capabilities = Capabilities> extends CreateSandboxOpts {
    name: string;
    onCreate?: (sandbox: SandboxHandle<C>) => Promise<void> | void;
    onResume?: (sandbox: SandboxHandle<C>) => Promise<void> | void;
}

export type GetSandboxExecutorOptions = ({
    kind: 'local';
} & LocalSandboxExecutorOptions) | ({
    kind: 'vercel';
} & VercelSandboxExecutorOptions) | ({
    kind?: undefined;
} & ProviderSandboxExecutorOptions) | {
    kind?: undefined;
    provider?: undefined;
    conversationId?: string;
    env?: Readonly<Record<string, string | undefined>>;
};

export interface GetSandboxOpts extends CallOptions {
    resume?: boolean;
}

export type GitDepth = 'full' | 'none' | {
    depth: number;
};

export interface HandlePage<C extends Capabilities = Capabilities> extends Array<SandboxHandle<C>> {
    nextCursor?: string;
}

export declare class HeadTail {
    constructor(maxBytes: number, budget?: OutputBudget);
    push(chunk: Uint8Array): void;
    get truncated(): boolean;
    result(): {
        bytes: Uint8Array<ArrayBuffer>;
        omitted: number;
    };
    text(maxBytes?: number): string;
}

export interface Hints {
    readonly sdk: string;
    readonly http: string;
    readonly cli: string;
}

export interface HopxCapabilities {
    readonly stdin: 'emulated';
    readonly mergedOutput: 'emulated';
    readonly reattach: 'emulated';
    readonly shell: 'emulated';
    readonly terminal: 'emulated';
    readonly ports: 'native';
    readonly pause: 'native';
    readonly lifetime: 'native';
}

export interface HopxClient {
    get(url: string, config?: HopxRequest): Promise<unknown>;
    post(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>;
    put(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>;
    patch(url: string, data?: unknown, config?: HopxRequest): Promise<unknown>;
    delete(url: string, config?: HopxRequest): Promise<unknown>;
}

export interface HopxClientConfig {
    readonly baseURL: string;
    readonly apiKey?: string;
    readonly jwtToken?: string;
    readonly timeout?: number;
    readonly maxRetries?: number;
}

export interface HopxCreateOptions {
    region?: string;
    templateId?: string;
}

export interface HopxModule {
    readonly HTTPClient: new (config: HopxClientConfig) => HopxClient;
}

export declare class HopxProvider extends DriverProvider<HopxCapabilities> {
    constructor(options?: HopxProviderOptions);
}

export interface HopxProviderOptions {
    apiKey?: string;
    apiUrl?: string;
    region?: string;
    template?: string;
    runtimes?: Readonly<Record<string, string>>;
    requestTimeoutMs?: number;
    startTimeoutMs?: number;
    sdk?: unknown;
    env?: Readonly<Record<string, string | undefined>>;
}

export interface HopxRequest {
    readonly signal?: AbortSignal;
    readonly timeout?: number;
    readonly maxRedirects?: number;
    readonly maxContentLength?: number;
    readonly maxBodyLength?: number;
    readonly responseType?: 'text';
    readonly validateStatus?: () => boolean;
    readonly transformResponse?: (data: unknown, headers: {
        get(name: string): unknown;
    }, status?: number) => unknown;
}

export type HostKeyAlgorithm = 'ssh-ed25519' | 'ecdsa-sha2-nistp256' | 'ecdsa-sha2-nistp384' | 'ecdsa-sha2-nistp521' | 'rsa-sha2-512' | 'rsa-sha2-256';

export interface HostProgramsOptions {
    readonly path: string;
    readonly isVisible?: (file: string) => boolean;
}

export declare class Http {
    constructor({ url, apiKey, fetch }: DaemonConnection);
    send(method: string, path: string, options?: RequestOptions): Promise<Response>;
    chunks(path: string, options?: RequestOptions): Promise<AsyncGenerator<Uint8Array>>;
    json<T>(method: string, path: string, options?: RequestOptions): Promise<T>;
    done(method: string, path: string, options?: RequestOptions): Promise<void>;
    get visitorHeaders(): Record<string, string>;
    socket(path: string, query: RequestOptions['query']): WebSocket;
}

type IsUnknown<C extends Capabilities> = [Ability] extends [keyof C] ? [C] extends [AllCapabilities] ? false : true : false;

export type Isolation = 'none' | 'process' | 'container' | 'gvisor' | 'vm' | 'simulated';

export interface KeepAlive extends AsyncDisposable {
    readonly ended: Promise<KeepAliveEnd>;
    beat(): Promise<void>;
    stop(): Promise<KeepAliveEnd>;
}

export interface KeepAliveEnd {
    readonly reason: 'stopped' | 'destroyed' | 'failed' | 'interrupted' | 'aborted' | 'limit' | 'closed';
    readonly snapshotId?: string;
    readonly error?: unknown;
}

export interface KeepAliveOptions<C extends Capabilities = Capabilities> extends CallOptions {
    leaseMs?: number;
    everyMs?: number;
    maxMs?: number;
    autoSnapshot?: Offers<C, 'snapshot'> extends true ? boolean | AutoSnapshotOptions : false;
    onBeat?: (beat: Beat) => void;
    onError?: (error: unknown, failure: BeatFailure) => void;
    onSnapshot?: (snapshotId: string) => void;
    beatTimeoutMs?: number;
    clock?: Clock;
}

export interface KindOptions<Name extends string> {
    readonly provider: string;
    readonly title: string;
    readonly fields: Readonly<Record<Name, FieldOptions>>;
    readonly alternatives?: ReadonlyArray<readonly NoInfer<Name>[]>;
    readonly sdk?: string;
    make(settings: {
        readonly [N in NoInfer<Name>]?: string;
    }, context: ProviderContext): SandboxProvider;
}

export type KnownRuntime = 'node24' | 'node22' | 'python3.13';

export interface Leftover {
    readonly provider: string;
    readonly attempt: string;
    readonly error?: unknown;
}

export interface Limits {
    behaviourMs: number;
    commandTimeoutMs: number;
    lifetimeMs: number;
    bigFileBytes: number;
    growthBytes: number;
    floodBytes: number;
}

export interface ListOptions extends CallOptions {
    recursive?: boolean;
}

export interface ListSandboxesOpts extends CallOptions {
    labels?: Readonly<Record<string, string>>;
    status?: SandboxStatus | readonly SandboxStatus[];
    name?: string;
    limit?: number;
    cursor?: string;
}

export interface ListSessionsOptions extends CallOptions {
    status?: SessionStatus | readonly SessionStatus[];
    name?: string;
    subject?: string;
    labels?: Readonly<Record<string, string>>;
    limit?: number;
    cursor?: string;
}

export declare class ListingSize {
    add(path: string): void;
}

export interface LocalCapabilities {
    readonly stdin: 'native';
    readonly reattach: 'native';
    readonly ports: 'native';
    readonly watch: 'native';
    readonly stop: 'native';
    readonly snapshot: 'native';
    readonly fork: 'emulated';
    readonly lifetime: 'native';
    readonly mergedOutput: 'native';
    readonly shell: 'native';
    readonly terminal: 'emulated';
}

export declare class LocalDriver extends FolderDriver<LocalCapabilities> implements ProviderDriver<LocalCapabilities> {
    readonly name: string;
    readonly isolation = "none";
    readonly capabilities: LocalCapabilities;
    readonly inheritEnv: readonly string[];
    readonly createOptions: readonly CreateOption[];
    readonly snapshotInterrupts = false;
    constructor(options: {
        name: string;
        root: string;
        inheritEnv: readonly string[];
        capabilities: LocalCapabilities;
    });
    get snapshots(): LocalSnapshots;
    listSnapshots(): Promise<import("../../spec/provider.ts").SnapshotInfo[]>;
    deleteSnapshot(snapshotId: string): Promise<boolean>;
    openThings(sandboxId: string): OpenThings;
    protected plan({ runtime }: CreateSpec): Promise<undefined>;
    protected fill(folder: string, _record: SandboxRecord, { snapshotId }: CreateSpec): Promise<void>;
    protected boot(): Promise<void>;
    protected lives(): Promise<boolean>;
    protected halt(_folder: string, { sandboxId }: SandboxRecord): Promise<void>;
    protected handle(folder: string, record: SandboxRecord): LocalSandbox;
}

export declare class LocalFiles implements FilesDriver {
    constructor(options: {
        root: string;
        partial: string;
        check: () => Promise<unknown>;
    });
    readStream(given: string, range: {
        start: number;
        end?: number;
    }): Promise<AsyncIterable<Uint8Array>>;
    write(given: string, chunks: AsyncIterable<Uint8Array>, options: {
        mode?: number;
        append: boolean;
    }, { signal }: CallOptions): Promise<void>;
    list(given: string, { recursive }: {
        recursive: boolean;
    }, { signal }: CallOptions): Promise<FileEntry[]>;
    stat(given: string, { follow }: {
        follow: boolean;
    }): Promise<FileStat>;
    mkdir(given: string, { recursive, mode }: {
        recursive: boolean;
        mode?: number;
    }): Promise<void>;
    rename(from: string, to: string): Promise<void>;
    rm(given: string, { recursive, force }: {
        recursive: boolean;
        force: boolean;
    }): Promise<void>;
    chmod(given: string, mode: number): Promise<void>;
    symlink(target: string, given: string): Promise<void>;
    readlink(given: string): Promise<string>;
    watch(given: string, { recursive }: {
        recursive: boolean;
    }, { signal }: CallOptions): Promise<AsyncIterable<FileChange>>;
}

export declare class LocalProcesses {
    constructor(options: {
        sandboxId: string;
        sandboxFolder: string;
        folder: string;
    });
    spawn(spec: ProcessSpec, place: {
        cwd: string;
        env: Record<string, string>;
        incarnation: string;
    }): Promise<ProcessDriver>;
    find(execId: string): Promise<ProcessDriver | undefined>;
    get(execId: string): Promise<ProcessDriver>;
    list(): Promise<ProcessInfo[]>;
    stopAll(): Promise<void>;
}

export declare class LocalProvider extends DriverProvider<LocalCapabilities> {
    constructor(options?: LocalProviderOptions);
}

export interface LocalProviderOptions {
    root?: string;
    inheritEnv?: readonly string[];
    acceptNoIsolation?: boolean;
}

export declare class LocalSandbox implements SandboxDriver {
    readonly sandboxId: string;
    readonly name?: string;
    readonly workdir: string;
    readonly writablePaths: readonly string[];
    readonly ports: readonly number[];
    readonly files: LocalFiles;
    readonly folder: string;
    constructor(driver: LocalDriver, folder: string, record: SandboxRecord);
    check(): Promise<SandboxRecord>;
    info(): Promise<SandboxInfo>;
    spawn(spec: ProcessSpec): Promise<ProcessDriver>;
    getProcess(execId: string): Promise<ProcessDriver>;
    listProcesses(): Promise<import("../../spec/process.ts").ProcessInfo[]>;
    openShell(options: Checked<OpenShellOptions>): Promise<SandboxShell>;
    openTerminal(options: Checked<OpenTerminalOptions> & {
        cols: number;
        rows: number;
    }): Promise<SandboxTerminal>;
    getEndpoint(port: number): Promise<{
        url: string;
        headers: {};
    }>;
    stop(): Promise<void>;
    start(): Promise<void>;
    snapshot(name: string | undefined): Promise<{
        snapshotId: string;
    }>;
    fork(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>>;
    extendTimeout(ms: number): Promise<void>;
    ready(): Promise<void>;
    destroy(): Promise<boolean>;
}

export declare class LocalSandboxExecutor extends ProviderSandboxExecutor {
    constructor(options?: LocalSandboxExecutorOptions);
    execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<ExecuteResult>;
    executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult>;
    cleanup(): Promise<void>;
}

export interface LocalSandboxExecutorOptions extends Pick<ProviderSandboxExecutorOptions, 'conversationId' | 'timeoutMs' | 'maxOutputBytes' | 'onOpen'> {
    directory?: string;
    allowedCommands?: readonly string[] | 'any';
}

export declare class LocalShell implements SandboxShell {
    readonly name: string;
    constructor(options: LocalShellOptions);
    get cwd(): string;
    get closed(): boolean;
    ready(): Promise<void>;
    exec(command: string, options?: ShellExecOptions): Promise<ShellResult>;
    close(): Promise<boolean>;
}

export interface LocalShellOptions {
    readonly name: string;
    readonly marker: string;
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
    readonly folder: string;
    readonly onClose: () => void;
}

export declare class LocalSnapshots {
    constructor(root: string);
    take({ sandboxId }: SandboxRecord, workspace: string, name: string | undefined): Promise<{
        snapshotId: string;
    }>;
    restore(snapshotId: string, workspace: string): Promise<void>;
    list(): Promise<SnapshotInfo[]>;
    delete(snapshotId: string): Promise<boolean>;
}

export declare class LocalTerminal implements SandboxTerminal {
    readonly terminalId: string;
    static open(options: LocalTerminalOptions): Promise<LocalTerminal>;
    get ended(): Promise<void>;
    write(data: string | Uint8Array): Promise<void>;
    resize(size: {
        cols: number;
        rows: number;
    }): Promise<void>;
    output({ after, signal }?: OutputOptions): AsyncIterable<ProcessEvent>;
    kill(signal?: ProcessSignal): Promise<boolean>;
    status(): Promise<ProcessStatus>;
}

export interface LocalTerminalOptions {
    readonly terminalId: string;
    readonly marker: string;
    readonly cmd: string;
    readonly args: readonly string[];
    readonly cols: number;
    readonly rows: number;
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
}

export declare class ManualClock implements Clock {
    constructor(startMs?: number);
    now(): number;
    get pending(): number;
    after(ms: number, callback: () => void): () => void;
    advance(ms: number): Promise<void>;
}

export type MemoryCapabilities = {
    readonly [A in Exclude<Ability, 'shell' | 'terminal' | 'activity'>]: AbilityLevel;
} & {
    readonly shell?: AbilityLevel;
};

export declare class MemoryFiles implements FilesDriver {
    constructor(host: FilesHost);
    readStream(path: string, range: {
        start: number;
        end?: number;
    }, call: CallOptions): Promise<AsyncIterable<Uint8Array>>;
    write(path: string, chunks: AsyncIterable<Uint8Array>, options: {
        mode?: number;
        append: boolean;
    }, call: CallOptions): Promise<void>;
    list(path: string, options: {
        recursive: boolean;
    }, call: CallOptions): Promise<FileEntry[]>;
    stat(path: string, options: {
        follow: boolean;
    }, call: CallOptions): Promise<FileStat>;
    mkdir(path: string, options: {
        recursive: boolean;
        mode?: number;
    }, call: CallOptions): Promise<void>;
    rename(from: string, to: string, call: CallOptions): Promise<void>;
    rm(path: string, options: {
        recursive: boolean;
        force: boolean;
    }, call: CallOptions): Promise<void>;
    chmod(path: string, mode: number, call: CallOptions): Promise<void>;
    symlink(target: string, path: string, call: CallOptions): Promise<void>;
    readlink(path: string, call: CallOptions): Promise<string>;
    watch(path: string, options: {
        recursive: boolean;
    }, call: CallOptions): Promise<AsyncIterable<FileChange>>;
}

export declare class MemoryProcess {
    readonly execId: string;
    readonly sandboxId: string;
    readonly pid: number;
    readonly startedAtMs: number;
    readonly log: OutputLog;
    readonly program: Program;
    constructor(host: ProcessHost, spec: ProcessSpec, run: {
        execId: string;
        pid: number;
        handler: CommandHandler;
        args: readonly string[];
        env: Record<string, string>;
        cwd: string;
    });
    kill(signal: string): boolean;
    info(): ProcessInfo;
    status(): ProcessStatus;
}

export declare class MemoryProvider extends DriverProvider<MemoryCapabilities> {
    constructor(options?: MemoryProviderOptions, sharedState?: SharedState);
    get calls(): readonly RecordedCall[];
    command(matcher: CommandMatcher, handler: CommandHandler): this;
    fault(rule: FaultRule): Fault;
    reopen(): MemoryProvider;
    networkOf(sandboxId: string): NormalNetwork | undefined;
    runtimeOf(sandboxId: string): string | undefined;
    running(sandboxId: string): string[];
}

export interface MemoryProviderOptions {
    clock?: Clock;
    seed?: string;
    shell?: ShellHandler;
    capabilities?: {
        readonly [A in Ability]?: false;
    };
    snapshotInterrupts?: boolean;
    runtimes?: readonly string[];
    createOptions?: readonly CreateOption[];
    endpoint?: (sandboxId: string, port: number) => SandboxEndpoint;
}

export declare class MemorySandbox {
    readonly id: string;
    readonly sharedState: SharedState;
    readonly recipe: SandboxRecipe;
    readonly createdAtMs: number;
    readonly vfs: Vfs;
    readonly files: MemoryFiles;
    readonly processes: Map<string, MemoryProcess>;
    readonly shells: Map<string, MemoryShell>;
    incarnation: number;
    status: SandboxStatus;
    network: NormalNetwork | undefined;
    expiresAtMs: number | undefined;
    constructor(sharedState: SharedState, id: string, recipe: SandboxRecipe, options: {
        root?: VfsDirectory;
        creating: boolean;
    });
    info(): SandboxInfo;
    ready(): Promise<void>;
    stop(): void;
    start(): void;
    pause(): void;
    resume(): void;
    open(): void;
    destroy(): void;
    extend(ms: number): void;
    change(): Promise<void>;
    changed(): void;
    error(code: 'not_found' | 'not_running' | 'interrupted', message: string, hint?: string): SandboxError;
}

export declare class MemoryShell implements SandboxShell {
    readonly name: string;
    constructor(sandbox: MemorySandbox, handler: ShellHandler, options: {
        name: string;
        cwd: string;
        env: Record<string, string>;
    });
    get cwd(): string;
    exec(command: string, options?: ShellExecOptions): Promise<ShellResult>;
    close(): Promise<boolean>;
    end(): void;
}

export interface MkdirOptions extends CallOptions {
    recursive?: boolean;
    mode?: number;
}

export interface Needs<A extends Ability> {
    readonly capabilities: {
        readonly [K in A]: AbilityLevel;
    };
}

export type Network = 'none' | 'open' | NetworkPolicy;

export interface NetworkAddressRule {
    readonly cidr: string;
    readonly ports?: readonly number[];
}

export interface NetworkHostRule {
    readonly host: string;
    readonly ports?: readonly number[];
    readonly protocol?: 'tls' | 'http' | 'tcp';
}

export interface NetworkLimits {
    readonly connections?: number;
    readonly bytes?: number;
    readonly bytesPerSecond?: number;
}

export interface NetworkPolicy {
    readonly allow: readonly NetworkRule[];
    readonly deny?: readonly NetworkRule[];
    readonly transform?: readonly RequestTransform[];
    readonly services?: Readonly<Record<string, NetworkService>>;
    readonly audit?: boolean;
    readonly limits?: NetworkLimits;
}

export type NetworkPreset = 'github' | 'anthropic' | 'openai' | 'packages';

export interface NetworkPresetRule {
    readonly preset: NetworkPreset;
}

export type NetworkRule = string | NetworkHostRule | NetworkAddressRule | NetworkPresetRule;

export interface NetworkService {
    readonly host: string;
    readonly port: number;
}

export interface NetworkTarget {
    host: string;
    port: number;
}

export type NormalNetwork = 'none' | 'open' | NormalPolicy;

export interface NormalPolicy extends NetworkPolicy {
    readonly allow: readonly NormalRule[];
    readonly deny: ReadonlyArray<NetworkHostRule | NetworkAddressRule>;
    readonly transform: readonly NormalTransform[];
    readonly services: Readonly<Record<string, NetworkService>>;
    readonly audit: boolean;
    readonly limits: NetworkLimits;
}

export type NormalRule = NetworkHostRule | NetworkAddressRule | NetworkPresetRule;

export interface NormalTransform extends RequestTransform {
    readonly match: {
        readonly host: string;
        readonly path?: string;
        readonly methods?: readonly string[];
    };
    readonly headers: Readonly<Record<string, string | SecretValue>>;
}

type Offered<C extends Capabilities, A extends Ability, Own, General> = {
    [M in keyof Own]: Offers<C, A> extends true ? Own[M] : Absent<General[M & keyof General], A>;
};

export type Offers<C extends Capabilities, A extends Ability> = C extends {
    readonly [K in A]: AbilityLevel;
} ? true : IsUnknown<C>;

export type OidcTokenSource = () => string | undefined | Promise<string | undefined>;

export type OnProgress = (event: ProgressEvent) => void;

export interface OnSandkastenOptions {
    url: string;
    apiKey: string;
}

export interface OpenShellOptions extends CallOptions {
    name?: string;
    cwd?: string;
    env?: Environment;
    login?: boolean;
}

export interface OpenTerminalOptions extends CallOptions {
    cmd?: string;
    args?: readonly string[];
    env?: Environment;
    cwd?: string;
    cols?: number;
    rows?: number;
    terminalId?: string;
}

interface OpenThings {
    readonly processes: LocalProcesses;
    readonly shells: Map<string, LocalShell>;
    readonly terminals: Map<string, LocalTerminal>;
}

export interface Opening {
    readonly sandboxId: string;
    readonly files: 'new' | 'kept' | 'restored' | 'lost';
    readonly reason?: SandboxErrorCode;
    readonly snapshotId?: string;
}

export type OptionalFact = 'writablePaths';

export type OptionalProgram = 'server' | 'connect' | 'version';

export interface OutputBudget {
    take(bytes: number): boolean;
    pace?(bytes: number): Promise<void> | undefined;
}

export type OutputEvent = StdoutEvent | StderrEvent;

export declare class OutputLog {
    readonly ended: Promise<void>;
    constructor(options: {
        capacityBytes: number;
        onPressure?: (wait: boolean) => void;
    });
    get exit(): ExitEvent | undefined;
    push(type: 'stdout' | 'stderr', data: Uint8Array): void;
    end(exit: ProcessExit): void;
    expectReader(): () => void;
    kept(): ProcessEvent[];
    read(after?: number, signal?: AbortSignal): AsyncGenerator<ProcessEvent>;
}

export interface OutputOptions extends CallOptions {
    after?: number;
}

export interface OutputWriter {
    write(data: string | Uint8Array): Promise<void>;
}

export interface Page<T> extends Array<T> {
    nextCursor?: string;
}

export type Part<C extends Capabilities, A extends Ability, F extends Facet> = Offered<C, A, PartOf<A, F, C>, PartOf<A, F>>;

export type PartOf<A extends Ability, F extends Facet, C extends Capabilities = Capabilities> = AbilityParts<C>[A] extends {
    readonly [K in F]: infer Part;
} ? Part : unknown;

export declare class Pipe implements AsyncIterable<Uint8Array> {
    write(data: string | Uint8Array): Promise<void>;
    end(): void;
    break(): void;
    [Symbol.asyncIterator](): AsyncGenerator<Uint8Array>;
    text(): Promise<string>;
}

export interface Place {
    readonly path: string;
    readonly name: string;
    readonly parent?: VfsDirectory;
    readonly node?: VfsNode;
}

export interface Policy {
    images?: readonly string[];
    networks?: ReadonlyArray<'none' | 'open' | 'policy'>;
    hosts?: readonly string[];
    services?: readonly string[];
    max?: {
        cpu?: number;
        memoryMb?: number;
        pids?: number;
        diskMb?: number;
    };
    maxTtlSeconds?: number;
    maxLifetimeSeconds?: number;
    pool?: readonly string[];
}

export declare class PortForwards {
    constructor(dial: (port: number) => Promise<Duplex>);
    localPort(port: number): Promise<number>;
    close(): Promise<void>;
}

export interface PortInfo {
    sessionId: string;
    port: number;
    visibility: 'private' | 'token' | 'public' | null;
    listening: boolean | null;
    wakeOnVisit: boolean;
    url: string | null;
    pathUrl: string | null;
    openedAt: Date | null;
    token?: string;
}

export interface PosixCommandsOptions {
    server?: 'python3' | 'node';
}

export interface Problem {
    readonly status?: number;
    readonly title?: string;
    readonly detail?: string;
    readonly code?: string;
    readonly hint?: string;
    readonly retryable?: boolean;
    readonly hints?: {
        readonly sdk?: string;
        readonly cli?: string;
    };
    readonly details?: Readonly<Record<string, unknown>>;
    readonly request_id?: string;
}

export interface ProcessCore {
    readonly execId: string;
    readonly pid?: number;
    output(options?: OutputOptions): AsyncIterable<ProcessEvent>;
    stdout(options?: CallOptions): ReadableStream<Uint8Array>;
    stderr(options?: CallOptions): ReadableStream<Uint8Array>;
    wait(options?: WaitOptions): Promise<CommandResult>;
    wait(options: WaitExitOptions & {
        collect: false;
    }): Promise<ProcessExit>;
    kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>;
    status(options?: CallOptions): Promise<ProcessStatus>;
}

export interface ProcessDriver {
    readonly execId: string;
    readonly pid?: number;
    events(after: number, signal?: AbortSignal): AsyncIterable<ProcessEvent>;
    kill(signal: ProcessSignal, call: CallOptions): Promise<boolean>;
    status(call: CallOptions): Promise<ProcessStatus>;
    waitForExit?(call: CallOptions): Promise<ProcessExit>;
    readonly whenEnded?: Promise<unknown>;
    write?(data: Uint8Array, call: CallOptions): Promise<void>;
    closeStdin?(call: CallOptions): Promise<void>;
}

export type ProcessEvent = StdoutEvent | StderrEvent | ExitEvent;

export interface ProcessExit {
    readonly exitCode: number;
    readonly signal?: string;
    readonly timedOut: boolean;
    readonly oom?: boolean;
    readonly durationMs: number;
}

export type ProcessHandle<C extends Capabilities = Capabilities> = ProcessCore & Part<C, 'stdin', 'process'>;

export interface ProcessHost {
    readonly sandboxId: string;
    readonly sharedState: SharedState;
    readonly files: FilesDriver;
    paused(): boolean;
    change(): Promise<void>;
    changed(): void;
}

export interface ProcessIdentity {
    readonly pid: number;
    readonly started?: string;
}

export interface ProcessInfo extends ProcessStatus {
    readonly execId: string;
    readonly cmd?: string;
    readonly args?: readonly string[];
    readonly startedAt?: Date;
}

export type ProcessSignal = 'SIGTERM' | 'SIGKILL' | 'SIGINT' | 'SIGHUP' | 'SIGQUIT' | 'SIGUSR1' | 'SIGUSR2' | 'SIGSTOP' | 'SIGCONT';

export interface ProcessSpec {
    readonly cmd: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd?: string;
    readonly timeoutMs?: number;
    readonly stdin: 'empty' | 'pipe' | AsyncIterable<Uint8Array>;
    readonly detached: boolean;
    readonly merged?: boolean;
    readonly reading: boolean;
    readonly execId?: string;
    readonly outputBufferBytes: number;
}

export interface ProcessStatus {
    readonly running: boolean;
    readonly exit?: ProcessExit;
}

export interface ProcessStdin {
    writeStdin(data: string | Uint8Array, options?: CallOptions): Promise<void>;
    closeStdin(options?: CallOptions): Promise<void>;
}

export declare class Program {
    readonly stdin: Pipe;
    readonly ended: Promise<ProgramEnd>;
    end: ProgramEnd | undefined;
    constructor(host: ProgramHost, spec: ProgramSpec);
    start(): void;
    deliver(signal: string): void;
    deliverToGroup(signal: string): void;
    deliverAlone(signal: string): void;
    get alive(): boolean;
    gate(): Promise<void>;
}

export interface ProgramEnd {
    readonly exitCode: number;
    readonly signal?: string;
    readonly error?: unknown;
}

export interface ProgramHost {
    readonly sandboxId: string;
    readonly clock: Clock;
    readonly files: FilesDriver;
    output(type: 'stdout' | 'stderr', data: Uint8Array): void;
    room(): Promise<void> | undefined;
    paused(): boolean;
    change(): Promise<void>;
    changed(): void;
    resolve(cmd: string, args: readonly string[]): CommandHandler;
}

export interface ProgramSpec {
    readonly cmd: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly handler: CommandHandler;
    readonly session?: boolean;
}

export type Programs = {
    readonly [P in RuntimeProgram]?: string;
};

export interface ProgressEvent {
    phase: 'scan' | 'pack' | 'send' | 'extract' | 'verify' | 'done';
    done: number;
    total?: number;
    path?: string;
}

export interface ProjectPolicy {
    policy: Policy;
    effective: {
        images: string[];
        defaultImage: string;
        networks: string[];
        max: {
            cpu: number;
            memoryMb: number;
            pids: number;
            diskMb: number;
        };
        maxTtlSeconds: number;
        maxLifetimeSeconds: number;
    };
}

export interface ProviderContext {
    readonly secrets?: (name: string, about?: SecretSubject) => Promise<string | undefined>;
}

export interface ProviderDriver<C extends Capabilities = Capabilities> {
    readonly name: string;
    readonly isolation: Isolation;
    readonly capabilities: C;
    readonly createOptions: readonly CreateOption[];
    readonly snapshotInterrupts: boolean;
    create(spec: CreateSpec, call: CallOptions): Promise<SandboxDriver>;
    open(sandboxId: string, options: {
        resume: boolean;
    }, call: CallOptions): Promise<SandboxDriver>;
    find(name: string, call: CallOptions): Promise<string | undefined>;
    list(filter: ListSandboxesOpts, call: CallOptions): Promise<SandboxPage>;
    destroy(sandboxId: string, call: CallOptions): Promise<boolean>;
    health(call: CallOptions): Promise<boolean>;
    listSnapshots?(call: CallOptions): Promise<SnapshotInfo[]>;
    deleteSnapshot?(snapshotId: string, call: CallOptions): Promise<boolean>;
}

export interface ProviderField {
    readonly name: string;
    readonly flag: string;
    readonly variable?: string;
    readonly secret?: boolean;
    readonly required?: boolean;
    readonly description: string;
    readonly format?: FieldFormat;
}

export interface ProviderKind {
    readonly provider: string;
    readonly title: string;
    readonly fields: readonly ProviderField[];
    readonly alternatives?: ReadonlyArray<readonly string[]>;
    readonly sdk?: string;
    make(settings: ProviderSettings, context?: ProviderContext): SandboxProvider;
}

export declare class ProviderSandboxExecutor implements SandboxExecutor {
    readonly conversationId: string;
    constructor(options: ProviderSandboxExecutorOptions);
    get lastOpening(): Opening | undefined;
    execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<ExecuteResult>;
    executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult>;
    writeFile(path: string, content: string | Uint8Array, { signal }?: CallOptions): Promise<void>;
    readFile(path: string, { maxBytes, signal }?: ReadOptions): Promise<string | null>;
    listFiles(path?: string, { signal }?: CallOptions): Promise<string[]>;
    cleanup(): Promise<void>;
    snapshot(): Promise<{
        snapshotId: string;
    }>;
    sandbox(): Promise<SandboxCore>;
}

export interface ProviderSandboxExecutorOptions {
    provider: ExecutorProvider;
    conversationId?: string;
    create?: Omit<CreateSandboxOpts, 'name' | 'signal'>;
    timeoutMs?: number;
    maxOutputBytes?: number;
    keepAlive?: boolean | ExecutorKeepAliveOptions;
    onOpen?: (opening: Opening) => void;
}

export type ProviderSettings = Readonly<Record<string, string>>;

export interface PullBranchResult extends PullFacts {
    as: 'branch';
    branch?: {
        name: string;
        commit: string;
        commits: number;
    };
}

export interface PullChangesOpts extends CallOptions {
    projectDir: string;
    remotePath?: string;
    as: 'patch' | 'branch';
    branch?: string;
    maxFileBytes?: number;
    maxTotalBytes?: number;
    onProgress?: OnProgress;
}

interface PullFacts {
    files: PulledFile[];
    conflicts: Conflict[];
    same: string[];
    skipped: Skipped[];
    head?: string;
}

export interface PullPatchResult extends PullFacts {
    as: 'patch';
    patch: string;
}

export type PullResult = PullPatchResult | PullBranchResult;

export interface PulledFile {
    path: string;
    change: 'added' | 'modified' | 'deleted';
}

export interface ReachedEvent {
    readonly kind: string;
    readonly verdict: string;
    readonly host: string | null;
    readonly address: string | null;
    readonly port: number | null;
}

export declare class ReachedTargets {
    add({ kind, verdict, host, address, port }: ReachedEvent): void;
    copy(): ReachedTargets;
    rules(): NormalRule[];
    hasService(name: string): boolean;
}

export interface ReadFileOptions extends CallOptions {
    encoding?: 'utf8';
    maxBytes?: number;
}

export interface ReadLinesOptions extends CallOptions {
    startLine?: number;
    endLine?: number;
    maxLineBytes?: number;
    maxBytes?: number;
}

export interface ReadOptions extends CallOptions {
    maxBytes?: number | undefined;
}

export interface ReadStreamOptions extends CallOptions {
    start?: number;
    end?: number;
}

export type RecipeSandbox = Pick<SandboxCore, 'sandboxId' | 'workdir' | 'files' | 'runCommand'>;

export interface RecordedCall {
    readonly sandboxId: string;
    readonly execId: string;
    readonly cmd: string;
    readonly args: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly cwd: string;
    readonly startedAtMs: number;
    exitCode?: number;
    signal?: string;
    error?: unknown;
}

export interface RequestMatch {
    readonly host: string;
    readonly path?: string;
    readonly method?: string | readonly string[];
    readonly methods?: readonly string[];
}

export interface RequestOptions {
    query?: Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>;
    json?: unknown;
    body?: Uint8Array | ReadableStream<Uint8Array>;
    headers?: Readonly<Record<string, string>>;
    signal?: AbortSignal | undefined;
}

export interface RequestTransform {
    readonly match: RequestMatch;
    readonly headers: Readonly<Record<string, string | SecretValue>>;
}

type RestrictedAbilities<C extends Capabilities> = Part<C, 'reattach', 'sandbox'> & Part<C, 'shell', 'sandbox'> & Part<C, 'terminal', 'sandbox'>;

export type RestrictedAbility = 'reattach' | 'shell' | 'terminal' | 'stdin' | 'mergedOutput' | 'orderedOutput' | 'watch';

export type RestrictedSandbox<C extends Capabilities = Capabilities> = Pick<SandboxCore<C, ProcessHandle<C>, SandboxFiles<C>>, 'id' | 'sandboxId' | 'provider' | 'name' | 'workdir' | 'writablePaths' | 'status' | 'runCommand' | 'spawn' | 'files' | 'readFile' | 'writeFile'> & {
    readonly capabilities: Pick<C, keyof C & RestrictedAbility>;
} & RestrictedAbilities<C>;

export interface Retry {
    readonly call?: string;
    readonly attempt: number;
    readonly error: SandboxError;
    readonly waitMs: number;
}

export interface RetryOptions {
    attempts?: number;
    baseMs?: number;
    maxMs?: number;
    onRetry?: (retry: Retry) => void;
    clock?: Clock;
}

export type RetrySubject = SandboxCore | SandboxProvider;

export interface RmOptions extends CallOptions {
    recursive?: boolean;
    force?: boolean;
}

export interface RunCommandOptions extends CommandOptions {
    signal?: AbortSignal;
    stdin?: BytesSource;
    maxOutputBytes?: number;
    outputBudget?: OutputBudget;
    detached?: false;
}

export interface RunOptions extends CallOptions {
    args?: readonly string[];
    env?: Environment;
    cwd?: string;
    timeoutMs?: number;
    stdin?: string | Uint8Array;
    maxOutputBytes?: number;
    output?: 'separate' | 'merged';
}

export interface RunResult {
    exitCode: number;
    stdout: string;
    stderr: string;
    signal?: string;
    timedOut: boolean;
    truncated: boolean;
    oom?: boolean;
    durationMs: number;
}

export type RuntimeProgram = 'node' | 'python';

export type SandboxAbilities<C extends Capabilities = Capabilities> = RestrictedAbilities<C> & Part<C, 'ports', 'sandbox'> & Part<C, 'stop', 'sandbox'> & Part<C, 'pause', 'sandbox'> & Part<C, 'snapshot', 'sandbox'> & Part<C, 'fork', 'sandbox'> & Part<C, 'lifetime', 'sandbox'> & Part<C, 'activity', 'sandbox'> & Part<C, 'egress', 'sandbox'>;

export interface SandboxActivity {
    refreshActivity(options?: CallOptions): Promise<void>;
}

export interface SandboxByName {
    readonly name: string;
}

export declare class SandboxClient {
    constructor(opts?: ConnectionOptions);
    createSession(opts?: CreateSessionOptions): Promise<Session>;
    create(opts?: CreateSessionOptions): Promise<{
        session: Session;
        info: SessionInfo;
    }>;
    getSession(id: string, options?: CallOptions): Promise<Session>;
    session(id: string, options?: {
        bound?: number;
    }): Session;
    listSessions(options?: ListSessionsOptions): Promise<Page<SessionInfo>>;
    listSnapshots(options?: CallOptions & {
        sessionId?: string;
        limit?: number;
        cursor?: string;
    }): Promise<Page<SnapshotInfo>>;
    deleteSnapshot(id: string, options?: CallOptions): Promise<boolean>;
    createVolume(name: string, options?: CallOptions & {
        limitMb?: number;
    }): Promise<VolumeInfo>;
    getVolume(name: string, options?: CallOptions): Promise<VolumeInfo>;
    listVolumes(options?: CallOptions & {
        limit?: number;
        cursor?: string;
    }): Promise<Page<VolumeInfo>>;
    deleteVolume(name: string, options?: CallOptions): Promise<boolean>;
    listSecrets(options?: CallOptions): Promise<SecretInfo[]>;
    putSecret(name: string, value: string, options?: CallOptions & {
        hosts?: readonly string[];
    }): Promise<SecretInfo>;
    deleteSecret(name: string, options?: CallOptions): Promise<boolean>;
    egressEvents(sessionId: string, options?: EgressEventsOptions): AsyncGenerator<EgressEvent>;
    getPolicy(projectId: string, options?: CallOptions): Promise<ProjectPolicy>;
    setPolicy(projectId: string, policy: Policy, options?: CallOptions): Promise<ProjectPolicy>;
    events(options?: CallOptions & {
        after?: number;
        sessionId?: string;
    }): AsyncGenerator<SessionEvent>;
    isReady(options?: CallOptions): Promise<boolean>;
}

export interface SandboxCore<C extends Capabilities = Capabilities, Process extends ProcessCore = ProcessCore, Files extends SandboxFilesCore = SandboxFilesCore> {
    readonly id: string;
    readonly sandboxId: string;
    readonly provider: string;
    readonly name?: string;
    readonly capabilities: C;
    readonly workdir: string;
    readonly writablePaths?: readonly string[];
    readonly ports: readonly number[];
    readonly network?: Network;
    status(options?: CallOptions): Promise<SandboxStatus>;
    info(options?: CallOptions): Promise<SandboxInfo>;
    runCommand(options: DetachedCommandOptions): Promise<Process>;
    runCommand(options: RunCommandOptions): Promise<CommandResult>;
    spawn(options: SpawnOptions): Promise<Process>;
    readonly files: Files;
    readFile(remotePath: string, options?: CallOptions): Promise<Bytes>;
    writeFile(remotePath: string, content: BytesSource, options?: CallOptions): Promise<void>;
    uploadFile(localPath: string, remotePath: string, options?: UploadFileOptions): Promise<void>;
    downloadFile(remotePath: string, localPath: string, options?: CallOptions): Promise<void>;
    restricted(): RestrictedSandbox<C>;
    destroy(options?: CallOptions): Promise<boolean>;
    [Symbol.asyncDispose](): Promise<void>;
}

export interface SandboxDriver {
    readonly sandboxId: string;
    readonly name?: string;
    readonly workdir: string;
    readonly writablePaths?: readonly string[];
    readonly ports?: readonly number[];
    readonly network?: Network;
    readonly files: FilesDriver;
    info(call: CallOptions): Promise<SandboxInfo>;
    spawn(spec: ProcessSpec, call: CallOptions): Promise<ProcessDriver>;
    destroy(call: CallOptions): Promise<boolean>;
    ready?(call: CallOptions): Promise<void>;
    getProcess?(execId: string, call: CallOptions): Promise<ProcessDriver>;
    listProcesses?(call: CallOptions): Promise<ProcessInfo[]>;
    openShell?(options: Checked<OpenShellOptions>, call: CallOptions): Promise<SandboxShell>;
    openTerminal?(options: Required<Pick<OpenTerminalOptions, 'cols' | 'rows'>> & Checked<OpenTerminalOptions>, call: CallOptions): Promise<SandboxTerminal>;
    getEndpoint?(port: number, call: CallOptions): Promise<SandboxEndpoint>;
    stop?(call: CallOptions): Promise<void>;
    start?(call: CallOptions): Promise<void>;
    pause?(call: CallOptions): Promise<void>;
    resume?(call: CallOptions): Promise<void>;
    snapshot?(name: string | undefined, call: CallOptions): Promise<{
        snapshotId: string;
    }>;
    fork?(count: number, call: CallOptions): Promise<Array<SandboxDriver | Error>>;
    extendTimeout?(ms: number, call: CallOptions): Promise<void>;
    refreshActivity?(call: CallOptions): Promise<void>;
    setNetwork?(network: NormalNetwork, call: CallOptions): Promise<void>;
}

export interface SandboxEgress {
    setNetwork(network: Network, options?: CallOptions): Promise<void>;
}

export interface SandboxEndpoint {
    url: string;
    headers: Record<string, string>;
    forwarded?: true;
}

export declare class SandboxError extends Error {
    readonly name = "SandboxError";
    readonly code: SandboxErrorCode;
    readonly hint: string;
    readonly hints: Hints;
    readonly status: number;
    readonly retryable: boolean;
    readonly provider?: string;
    readonly sandboxId?: string;
    readonly requestId?: string;
    readonly details: Readonly<Record<string, unknown>>;
    constructor(code: SandboxErrorCode, message: string, options?: SandboxErrorOptions);
    static is(value: unknown, ...codes: SandboxErrorCode[]): value is SandboxError;
    toJSON(): {
        name: string;
        code: SandboxErrorCode;
        message: string;
        hint: string;
        status: number;
        retryable: boolean;
        provider?: string;
        sandboxId?: string;
        requestId?: string;
        details: object;
    };
}

export type SandboxErrorCode = keyof typeof errorTable;

export interface SandboxErrorOptions {
    hint?: string | Hints;
    retryable?: boolean;
    provider?: string;
    sandboxId?: string;
    requestId?: string;
    details?: Readonly<Record<string, unknown>>;
    cause?: unknown;
}

export interface SandboxExecutor {
    execute(command: string, args?: readonly string[], options?: ExecuteOptions): Promise<ExecuteResult>;
    executeLine(line: string, options?: ExecuteOptions): Promise<ExecuteResult>;
    writeFile(path: string, content: string | Uint8Array, options?: CallOptions): Promise<void>;
    readFile(path: string, options?: ReadOptions): Promise<string | null>;
    listFiles(path?: string, options?: CallOptions): Promise<string[]>;
    cleanup(): Promise<void>;
    readonly lastOpening?: Opening | undefined;
}

export type SandboxFiles<C extends Capabilities = Capabilities> = SandboxFilesCore & Part<C, 'watch', 'files'>;

export interface SandboxFilesCore {
    readFile(path: string, options?: ReadFileOptions & {
        encoding?: undefined;
    }): Promise<Bytes>;
    readFile(path: string, options: 'utf8' | (ReadFileOptions & {
        encoding: 'utf8';
    })): Promise<string>;
    readFileOrNull(path: string, options?: ReadFileOptions & {
        encoding?: undefined;
    }): Promise<Bytes | null>;
    readFileOrNull(path: string, options: 'utf8' | (ReadFileOptions & {
        encoding: 'utf8';
    })): Promise<string | null>;
    readLines(path: string, options?: ReadLinesOptions): Promise<FileLines>;
    readStream(path: string, options?: ReadStreamOptions): Promise<ReadableStream<Uint8Array>>;
    writeFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>;
    appendFile(path: string, data: BytesSource, options?: WriteFileOptions): Promise<void>;
    readdir(path: string, options?: CallOptions): Promise<string[]>;
    list(path?: string, options?: ListOptions): Promise<FileEntry[]>;
    stat(path: string, options?: CallOptions): Promise<FileStat>;
    lstat(path: string, options?: CallOptions): Promise<FileStat>;
    exists(path: string, options?: CallOptions): Promise<boolean>;
    mkdir(path: string, options?: MkdirOptions): Promise<void>;
    rename(from: string, to: string, options?: CallOptions): Promise<void>;
    rm(path: string, options?: RmOptions): Promise<void>;
    chmod(path: string, mode: number, options?: CallOptions): Promise<void>;
    symlink(target: string, path: string, options?: CallOptions): Promise<void>;
    readlink(path: string, options?: CallOptions): Promise<string>;
}

export interface SandboxFilesWatch {
    watch(path: string, options?: WatchOptions): Promise<AsyncIterable<FileChange>>;
}

export interface SandboxFork<C extends Capabilities> {
    fork(options?: ForkOptions): Promise<Array<SandboxHandle<C> | Error>>;
}

export type SandboxHandle<C extends Capabilities = Capabilities> = SandboxCore<C, ProcessHandle<C>, SandboxFiles<C>> & SandboxAbilities<C>;

export interface SandboxInfo {
    id: string;
    sandboxId: string;
    status: SandboxStatus;
    rawStatus?: string;
    name?: string;
    label?: string;
    labels: Record<string, string>;
    createdAt?: Date;
    expiresAt?: Date;
    weaker?: string[];
}

export interface SandboxLifetime {
    extendTimeout(ms: number, options?: CallOptions): Promise<void>;
}

export interface SandboxPage extends Array<SandboxInfo> {
    nextCursor?: string;
}

export interface SandboxPause {
    pause(options?: CallOptions): Promise<void>;
    resume(options?: CallOptions): Promise<void>;
}

export interface SandboxPorts {
    getEndpoint(port: number, options?: EndpointOptions): Promise<SandboxEndpoint>;
    getUrl(port: number, options?: EndpointOptions): Promise<string>;
}

export type SandboxProvider<C extends Capabilities = Capabilities> = SandboxProviderCore<C> & Part<C, 'snapshot', 'provider'>;

export interface SandboxProviderCore<C extends Capabilities = Capabilities> {
    readonly name: string;
    readonly capabilities: C;
    readonly isolation: Isolation;
    readonly createOptions: ReadonlySet<CreateOption>;
    readonly snapshotInterrupts: boolean;
    create(options?: CreateSandboxOpts): Promise<SandboxHandle<C>>;
    get(sandbox: string | SandboxByName, options?: GetSandboxOpts): Promise<SandboxHandle<C>>;
    getOrCreate(options: GetOrCreateOpts<C>): Promise<SandboxHandle<C>>;
    list(options?: ListSandboxesOpts): Promise<SandboxPage>;
    listHandles(options?: ListSandboxesOpts): Promise<HandlePage<C>>;
    destroy(sandboxId: string, options?: CallOptions): Promise<boolean>;
    healthCheck(options?: CallOptions): Promise<boolean>;
}

export interface SandboxReattach<C extends Capabilities> {
    getProcess(execId: string, options?: CallOptions): Promise<ProcessHandle<C>>;
    listProcesses(options?: CallOptions): Promise<ProcessInfo[]>;
}

export type SandboxRecipe = Pick<CreateSpec, 'name' | 'label' | 'labels' | 'envVars' | 'lifetimeMs' | 'runtime' | 'ports' | 'network'>;

export interface SandboxRecord {
    readonly version: 1;
    readonly sandboxId: string;
    readonly name?: string;
    readonly label?: string;
    readonly labels: Readonly<Record<string, string>>;
    readonly envVars: Readonly<Record<string, string>>;
    readonly ports?: readonly number[];
    readonly createdAt: number;
    readonly lifetimeMs?: number;
    readonly status: 'creating' | 'running' | 'paused' | 'stopped';
    readonly incarnation: string;
    readonly expiresAt?: number;
    readonly leaving?: true;
    readonly crashed?: true;
    readonly extra?: Readonly<Record<string, unknown>>;
    readonly creator?: ProcessIdentity;
}

export interface SandboxResources {
    vcpus?: number;
    memoryMb?: number;
    diskMb?: number;
}

export interface SandboxShell {
    readonly name: string;
    readonly cwd: string;
    exec(command: string, options?: ShellExecOptions): Promise<ShellResult>;
    attach?(execId: string, options?: Omit<ShellExecOptions, 'execId' | 'timeoutMs'>): Promise<ShellResult>;
    close(options?: CallOptions): Promise<boolean>;
}

export interface SandboxShells {
    openShell(options?: OpenShellOptions): Promise<SandboxShell>;
}

export interface SandboxSnapshots {
    snapshot(options?: SnapshotOptions): Promise<{
        snapshotId: string;
    }>;
}

export type SandboxStatus = 'creating' | 'running' | 'paused' | 'stopped' | 'archived' | 'failed' | 'destroyed' | 'unknown';

export interface SandboxStop {
    stop(options?: CallOptions): Promise<void>;
    start(options?: CallOptions): Promise<void>;
}

export interface SandboxTerminal {
    readonly terminalId: string;
    write(data: string | Uint8Array, options?: CallOptions): Promise<void>;
    resize(size: {
        cols: number;
        rows: number;
    }, options?: CallOptions): Promise<void>;
    output(options?: OutputOptions): AsyncIterable<ProcessEvent>;
    kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>;
    status(options?: CallOptions): Promise<ProcessStatus>;
}

export interface SandboxTerminals {
    openTerminal(options?: OpenTerminalOptions): Promise<SandboxTerminal>;
}

export interface SandboxTool {
    readonly name: string;
    readonly description: string;
    readonly inputSchema: ToolInputSchema;
    execute(input: unknown, options?: CallOptions): Promise<string>;
}

export interface SandboxToolsOptions {
    timeoutMs?: number;
    maxTimeoutMs?: number;
    maxResultChars?: number;
}

export type SandboxUser = 'root';

export interface SecretInfo {
    name: string;
    version: number;
    hosts?: string[];
    createdAt: Date;
    updatedAt: Date;
}

export interface SecretOptions {
    readonly prefix?: string;
    readonly suffix?: string;
    readonly basic?: string;
}

export type SecretSource = Readonly<Record<string, string>> | ((name: string) => string | undefined | Promise<string | undefined>);

export interface SecretSubject {
    readonly labels: Readonly<Record<string, string>>;
}

export interface SecretValue {
    readonly secret: string;
    readonly prefix?: string;
    readonly suffix?: string;
    readonly basic?: string;
}

export declare class Session {
    readonly id: string;
    readonly files: SessionFiles;
    constructor(http: Http, id: string, options?: {
        bound?: number;
    });
    get bound(): number | undefined;
    exec(cmd: string, options?: ExecOptions): Promise<ExecResult>;
    write(path: string, content: string | Uint8Array | BytesSource): Promise<void>;
    read(path: string, opts?: {
        maxBytes?: number;
    }): Promise<Uint8Array>;
    destroy(options?: CallOptions): Promise<void>;
    end(options?: CallOptions): Promise<boolean>;
    run(cmd: string, options?: RunOptions): Promise<RunResult>;
    start(cmd: string, options?: StartOptions & {
        extra?: Record<string, unknown>;
    }): Promise<Command>;
    command(execId: string): Command;
    listCommands(options?: CallOptions & {
        limit?: number;
    }): Promise<CommandInfo[]>;
    openShell(name: string, options?: CallOptions & {
        cwd?: string;
        env?: Environment;
        login?: boolean;
    }): Promise<ShellInfo>;
    listShells(options?: CallOptions): Promise<ShellInfo[]>;
    closeShell(name: string, options?: CallOptions): Promise<boolean>;
    openTerminal(options?: CallOptions & {
        terminalId?: string;
        cmd?: string;
        args?: readonly string[];
        env?: Environment;
        cwd?: string;
        cols?: number;
        rows?: number;
    }): Promise<SessionTerminal>;
    terminal(terminalId: string): SessionTerminal;
    info(options?: CallOptions): Promise<SessionInfo>;
    startAgain(options?: CallOptions): Promise<SessionInfo>;
    stop(options?: CallOptions): Promise<SessionInfo>;
    pause(options?: CallOptions): Promise<SessionInfo>;
    resume(options?: CallOptions): Promise<SessionInfo>;
    extend(ttlSeconds: number, options?: CallOptions): Promise<SessionInfo>;
    setLabels(labels: Readonly<Record<string, string | null>>, options?: CallOptions): Promise<SessionInfo>;
    setNetwork(network: Network, options?: CallOptions): Promise<SessionInfo>;
    egressEvents(options?: EgressEventsOptions): AsyncGenerator<EgressEvent>;
    snapshot(options?: CallOptions & {
        name?: string;
    }): Promise<SnapshotInfo>;
    openPort(port: number, options?: CallOptions & {
        visibility?: 'private' | 'token' | 'public';
        wakeOnVisit?: boolean;
        rotate?: boolean;
    }): Promise<PortInfo>;
    get visitorHeaders(): Record<string, string>;
    fork(options?: CallOptions & {
        count?: number;
    }): Promise<Array<{
        session: Session;
        info: SessionInfo;
    } | SandboxError>>;
    stats(options?: CallOptions): Promise<Record<string, number>>;
    events(options?: CallOptions & {
        after?: number;
    }): AsyncGenerator<SessionEvent>;
}

export declare class Session {
    readonly provider: AnyProvider;
    readonly commands: CommandKit;
    readonly limits: Limits;
    readonly label: {
        'sandkasten-conformance': string;
    };
    static open(options: ConformanceOptions): Promise<Session>;
    run(behaviour: Behaviour): Promise<void>;
    note(behaviour: Behaviour): string | undefined;
    excuse(behaviour: Behaviour): string | undefined;
    get targets(): EgressTargets;
    get runtimes(): readonly string[];
    shared(group: string): Promise<AnySandbox>;
    reopened(): Promise<AnyProvider | undefined>;
    leftovers(sandboxId: string): Promise<readonly string[] | undefined>;
    close(): Promise<void>;
}

export interface SessionEvent {
    id: number;
    type: string;
    sessionId?: string;
    data: Record<string, unknown>;
    createdAt: Date;
}

export declare class SessionFiles {
    constructor(http: Http, sessionPath: string, headers: () => Record<string, string>);
    read(path: string, options?: CallOptions): Promise<Bytes>;
    readStream(path: string, { start, end, ...call }?: CallOptions & {
        start?: number;
        end?: number;
    }): Promise<ReadableStream<Uint8Array>>;
    readChunks(path: string, { start, end }: {
        start?: number;
        end?: number;
    }, { signal }?: CallOptions): Promise<AsyncIterable<Uint8Array>>;
    write(path: string, data: BytesSource, options?: CallOptions & {
        mode?: number | undefined;
        append?: boolean | undefined;
    }): Promise<void>;
    list(path?: string, options?: CallOptions & {
        recursive?: boolean | undefined;
    }): Promise<FileEntry[]>;
    stat(path: string, options?: CallOptions & {
        follow?: boolean | undefined;
    }): Promise<FileStat & {
        target?: string;
    }>;
    mkdir(path: string, options?: CallOptions & {
        recursive?: boolean | undefined;
        mode?: number | undefined;
    }): Promise<void>;
    move(from: string, to: string, options?: CallOptions): Promise<void>;
    remove(path: string, options?: CallOptions & {
        recursive?: boolean | undefined;
        force?: boolean | undefined;
    }): Promise<void>;
    chmod(path: string, mode: number, options?: CallOptions): Promise<void>;
    symlink(target: string, path: string, options?: CallOptions): Promise<void>;
    watch(path?: string, options?: CallOptions & {
        recursive?: boolean | undefined;
    }): Promise<AsyncIterable<FileChange>>;
    pack(path?: string, options?: CallOptions): Promise<ReadableStream<Uint8Array>>;
    unpack(data: Uint8Array | ReadableStream<Uint8Array>, path?: string, options?: CallOptions & {
        gzip?: boolean;
    }): Promise<void>;
}

export interface SessionInfo {
    id: string;
    name?: string;
    status: SessionStatus;
    statusReason: string;
    statusBy: string;
    statusAt: Date;
    subject?: string;
    image: string;
    labels: Record<string, string>;
    envNames: string[];
    limits: {
        cpu: number;
        memoryMb: number;
        pids: number;
        diskMb?: number;
    };
    networkMode: string;
    network?: Network;
    workdir?: string;
    user?: string;
    writablePaths?: string[];
    cwd?: string;
    incarnation: number;
    snapshotId?: string;
    volumes: SessionVolume[];
    wakeOnUse: boolean;
    ttlSeconds: number;
    onIdle: EndAction;
    lifetimeSeconds?: number;
    onLifetime: EndAction;
    createdAt: Date;
    startedAt: Date;
    lastActivity: Date;
    expiresAt?: Date;
    lifetimeEndsAt?: Date;
}

export type SessionStatus = 'creating' | 'running' | 'paused' | 'stopped' | 'expired' | 'crashed' | 'failed' | 'destroyed';

export declare class SessionTerminal {
    readonly terminalId: string;
    constructor(http: Http, sessionPath: string, terminalId: string);
    write(data: string | Uint8Array, options?: CallOptions): Promise<void>;
    resize(size: {
        cols: number;
        rows: number;
    }, options?: CallOptions): Promise<void>;
    output({ after, signal }?: OutputOptions): AsyncGenerator<ProcessEvent>;
    kill(signal?: ProcessSignal, options?: CallOptions): Promise<boolean>;
    status(options?: CallOptions): Promise<ProcessStatus>;
    close(): Promise<void>;
}

export interface SessionVolume {
    name: string;
    path: string;
    readOnly: boolean;
}

type SetVariables = {
    readonly [name: string]: string;
};

export interface SftpDisk {
    readonly f_frsize: number;
    readonly f_bavail: number;
    readonly f_files: number;
    readonly f_favail: number;
}

export interface SftpStats {
    readonly mode: number;
    readonly size: number;
    readonly mtime: number;
}

export type SharedCapabilities<A extends Capabilities, B extends Capabilities> = IsUnknown<A> extends true ? Capabilities : IsUnknown<B> extends true ? Capabilities : {
    readonly [K in AbilityOf<A> & AbilityOf<B>]: AbilityLevel;
};

export declare class SharedState {
    readonly clock: Clock;
    readonly commands: Commands;
    readonly faults: Faults;
    readonly calls: RecordedCall[];
    readonly sandboxes: Map<string, MemorySandbox>;
    readonly snapshots: Map<string, {
        info: SnapshotInfo;
        root: VfsDirectory;
    }>;
    readonly shell: ShellHandler | undefined;
    readonly endpoint: (sandboxId: string, port: number) => SandboxEndpoint;
    readonly snapshotInterrupts: boolean;
    constructor(options: {
        clock: Clock;
        seed?: string;
        shell?: ShellHandler;
        endpoint?: (sandboxId: string, port: number) => SandboxEndpoint;
        snapshotInterrupts?: boolean;
    });
    id(kind: 'sandbox' | 'process' | 'snapshot' | 'shell'): string;
    started(process: MemoryProcess): void;
    running(sandboxId: string): string[];
    count(kind: string): number;
}

export interface ShellExecOptions extends CallOptions {
    signal?: AbortSignal;
    timeoutMs?: number;
    onOutput?: (text: string) => unknown;
    maxOutputBytes?: number;
    outputBudget?: OutputBudget;
    execId?: string;
    onFound?: () => void;
}

export type ShellHandler = (line: string, state: ShellState, io: ShellIo) => number | Promise<number>;

export interface ShellInfo {
    name: string;
    cwd: string;
}

export interface ShellIo {
    write(text: string): void;
    readonly signal: AbortSignal;
    readonly files: MemoryFiles;
    sleep(ms: number): Promise<void>;
    exit(code: number): never;
}

export interface ShellResult {
    exitCode: number;
    output: string;
    cwd: string;
    timedOut: boolean;
    truncated: boolean;
    durationMs: number;
    shellRestarted: boolean;
    warning?: string;
}

export interface ShellState {
    cwd: string;
    env: Record<string, string>;
}

export interface Skipped {
    path: string;
    reason: string;
}

export interface SnapshotAdmin {
    listSnapshots(options?: CallOptions): Promise<SnapshotInfo[]>;
    deleteSnapshot(snapshotId: string, options?: CallOptions): Promise<boolean>;
}

export interface SnapshotInfo {
    id: string;
    name?: string;
    sessionId: string;
    image: string;
    sizeBytes?: number;
    createdAt: Date;
}

export interface SnapshotInfo {
    snapshotId: string;
    name?: string;
    createdAt?: Date;
    sizeBytes?: number;
    sandboxId?: string;
}

export interface SnapshotOptions extends CallOptions {
    name?: string;
}

type SnapshotOwner<C extends Capabilities> = Offers<C, 'snapshot'> extends true ? DriverProvider<C> : DriverProvider<C> & Needs<'snapshot'>;

export interface SpawnOptions extends CommandOptions {
    signal?: AbortSignal;
    stdin?: BytesSource | 'pipe';
    detached?: boolean;
    execId?: string;
    outputBufferBytes?: number;
}

export interface SpritesCapabilities {
    readonly stdin: 'emulated';
    readonly mergedOutput: 'emulated';
    readonly reattach: 'emulated';
    readonly shell: 'emulated';
    readonly terminal: 'emulated';
    readonly ports: 'native';
}

export declare class SpritesProvider extends DriverProvider<SpritesCapabilities> {
    constructor(options?: SpritesProviderOptions);
}

export interface SpritesProviderOptions {
    token?: string;
    baseUrl?: string;
    namePrefix?: string;
    requestTimeoutMs?: number;
    sdk?: unknown;
    env?: Readonly<Record<string, string | undefined>>;
}

export interface SpritesSdk {
    readonly SpritesClient: new (token: string, options: {
        baseURL: string;
        timeout: number;
    }) => VendorClient;
}

export interface Ssh2 {
    Client: new () => Ssh2Client;
    utils: {
        parseKey(data: string | Buffer, passphrase?: string): unknown;
    };
}

export type Ssh2Channel = Duplex & {
    readonly stderr: Readable;
    close(): void;
};

export interface Ssh2Client {
    connect(config: Ssh2Config): unknown;
    exec(command: string, callback: (error: Error | undefined, channel: Ssh2Channel) => void): unknown;
    sftp(callback: (error: Error | undefined, sftp: Ssh2Sftp) => void): unknown;
    forwardOut(fromHost: string, fromPort: number, host: string, port: number, callback: (error: Error | undefined, channel: Duplex) => void): unknown;
    unforwardIn(host: string, port: number, callback: (error?: Error | null) => void): unknown;
    destroy(): unknown;
    on(event: 'ready' | 'close' | 'end', listener: () => void): this;
    on(event: 'error', listener: (error: Error & {
        level?: string;
        code?: unknown;
    }) => void): this;
}

export interface Ssh2Config {
    sock: Socket;
    username: string;
    authHandler: Ssh2Credential[];
    readyTimeout: number;
    hostVerifier: (key: Buffer) => boolean;
    algorithms?: {
        serverHostKey: HostKeyAlgorithm[];
    };
}

export type Ssh2Credential = {
    type: 'agent';
    username: string;
    agent: string;
} | {
    type: 'publickey';
    username: string;
    key: Buffer;
    passphrase?: string;
};

export interface Ssh2Sftp {
    open(path: string, flags: number, mode: number, callback: Callback<Buffer>): void;
    close(handle: Buffer, callback: Callback<void>): void;
    read(handle: Buffer, buffer: Buffer, offset: number, length: number, position: number, callback: (error: Error | undefined, bytesRead: number) => void): void;
    write(handle: Buffer, buffer: Buffer, offset: number, length: number, position: number, callback: Callback<void>): void;
    fstat(handle: Buffer, callback: Callback<SftpStats>): void;
    fchmod(handle: Buffer, mode: number, callback: Callback<void>): void;
    stat(path: string, callback: Callback<SftpStats>): void;
    lstat(path: string, callback: Callback<SftpStats>): void;
    readdir(path: string, callback: Callback<Array<{
        filename: string;
        attrs: SftpStats;
    }>>): void;
    mkdir(path: string, attributes: {
        mode?: number;
    }, callback: Callback<void>): void;
    rmdir(path: string, callback: Callback<void>): void;
    unlink(path: string, callback: Callback<void>): void;
    rename(from: string, to: string, callback: Callback<void>): void;
    ext_openssh_rename(from: string, to: string, callback: Callback<void>): void;
    chmod(path: string, mode: number, callback: Callback<void>): void;
    symlink(target: string, path: string, callback: Callback<void>): void;
    readlink(path: string, callback: Callback<string>): void;
    realpath(path: string, callback: Callback<string>): void;
    ext_openssh_statvfs(path: string, callback: Callback<SftpDisk>): void;
    on(event: 'close' | 'end', listener: () => void): unknown;
    on(event: 'error', listener: (error: Error) => void): unknown;
}

export type SshCapabilities = typeof sshCapabilities;

export declare class SshProvider extends DriverProvider<SshCapabilities> {
    constructor(options: SshProviderOptions);
    runner(): Promise<SshRunnerUse>;
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}

export interface SshProviderOptions {
    host: string;
    port?: number;
    username?: string;
    passphrase?: string;
    agent?: string | false;
    knownHosts?: string | readonly string[];
    hostKey?: string | readonly string[];
    acceptUnknownHost?: boolean;
    root?: string;
    connectTimeoutMs?: number;
    pingMs?: number;
    maxSessions?: number;
    runner?: string | false;
    acceptNoIsolation?: boolean;
    sdk?: Ssh2;
}

export interface SshRunnerUse {
    readonly used: boolean;
    readonly why?: string;
}

export interface StartOptions extends RunOptions {
    execId?: string;
    stdinOpen?: boolean;
    detach?: boolean;
    outputBufferBytes?: number;
}

export interface StderrEvent {
    readonly seq: number;
    readonly type: 'stderr';
    readonly data: Uint8Array;
}

export interface StdoutEvent {
    readonly seq: number;
    readonly type: 'stdout';
    readonly data: Uint8Array;
}

export interface TestRunner {
    describe(name: string, body: () => void): unknown;
    it(name: string, body: (context?: unknown) => Promise<void>): unknown;
    afterAll?(body: () => Promise<void>): unknown;
}

export interface ToolInputSchema {
    readonly type: 'object';
    readonly properties: {
        readonly [name: string]: ToolProperty;
    };
    readonly required: string[];
    readonly additionalProperties: true;
}

export interface ToolProperty {
    readonly type: 'string' | 'integer';
    readonly description: string;
    readonly minimum?: number;
    readonly maximum?: number;
}

export interface TreeShape {
    readonly leaves?: 'group' | 'parent';
    readonly heeds?: boolean;
}

export declare class Trial {
    readonly provider: AnyProvider;
    readonly commands: CommandKit;
    readonly limits: Limits;
    constructor(session: Session, group: string);
    sandbox(): Promise<AnySandbox>;
    create(options?: CreateSandboxOpts): Promise<AnySandbox>;
    marked<T extends CreateSandboxOpts>(options: T): T;
    adopt(sandbox: AnySandbox): AnySandbox;
    get targets(): EgressTargets;
    get runtimes(): readonly string[];
    connect({ host, port }: NetworkTarget): Command;
    run(sandbox: Pick<AnySandbox, 'runCommand'>, command: Command, options?: Omit<RunCommandOptions, 'cmd' | 'args'>): Promise<import("../spec/process.ts").CommandResult>;
    spawn(sandbox: Pick<AnySandbox, 'spawn'>, command: Command, options?: Omit<SpawnOptions, 'cmd' | 'args'>): Promise<ProcessHandle>;
    folder(sandbox: Pick<AnySandbox, 'files'>): Promise<string>;
    unique(prefix?: string): string;
    reopened(): Promise<AnyProvider | undefined>;
    leftovers(sandboxId: string): Promise<readonly string[] | undefined>;
    later(undo: () => unknown): void;
    cleanUp(): Promise<void>;
    eventually(question: () => Promise<boolean>, what: string): Promise<void>;
}

export interface UploadFileOptions extends CallOptions {
    readOnly?: boolean;
}

export interface UploadProjectOpts extends CallOptions {
    projectDir: string;
    remotePath?: string;
    git?: GitDepth;
    include?: readonly string[];
    force?: boolean;
    onProgress?: OnProgress;
}

export interface UploadResult {
    remotePath: string;
    sent: number;
    unchanged: number;
    removed: number;
    bytes: number;
    skipped: Skipped[];
    conflicts: Conflict[];
    lfs: {
        content: number;
        pointers: number;
    };
    head?: string;
}

export interface VendorClient {
    sprite(name: string): VendorSprite;
    createSprite(name: string, options: VendorCreate): Promise<VendorFacts>;
    getSprite(name: string): Promise<VendorFacts>;
    listSprites(options: {
        prefix?: string;
        maxResults?: number;
        continuationToken?: string;
    }): Promise<{
        sprites: VendorFacts[];
        hasMore: boolean;
        nextContinuationToken?: string;
    }>;
    updateSprite(name: string, changes: {
        labels: string[];
    }): Promise<unknown>;
    deleteSprite(name: string): Promise<void>;
}

export interface VendorCommand {
    readonly stdin: {
        write(data: Uint8Array): unknown;
        end(): unknown;
    };
    readonly stdout: VendorOutput;
    readonly stderr: {
        resume(): unknown;
    };
    on(event: 'spawn', listener: () => void): unknown;
    on(event: 'error', listener: (error: Error) => void): unknown;
    on(event: 'exit', listener: (code: number) => void): unknown;
    kill(signal: string): void;
}

export interface VendorCreate {
    labels: string[];
    environment?: Record<string, string>;
    urlSettings?: {
        auth?: string;
    };
    runtime?: 'default' | 'dev';
    waitForCapacity?: boolean;
}

export interface VendorFacts {
    readonly name: string;
    readonly id?: string;
    readonly status?: string;
    readonly createdAt?: Date;
    readonly labels?: string[];
}

export interface VendorOutput {
    on(event: 'data', listener: (data: Uint8Array) => void): unknown;
    on(event: 'end', listener: () => void): unknown;
}

export interface VendorProxy {
    localAddr(): string | null;
    close(): void;
    on(event: 'error', listener: (error: Error) => void): unknown;
}

export interface VendorSprite {
    spawn(command: string, args: string[]): VendorCommand;
    execFileHTTP(file: string, args: string[], options: {
        timeout: number;
    }): Promise<unknown>;
    proxyPort(localPort: number, remotePort: number, remoteHost: string): Promise<VendorProxy>;
}

export interface VercelCapabilities {
    readonly stdin: 'emulated';
    readonly mergedOutput: 'emulated';
    readonly reattach: 'emulated';
    readonly shell: 'emulated';
    readonly ports: 'native';
    readonly stop: 'native';
    readonly snapshot: 'emulated';
    readonly fork: 'emulated';
    readonly lifetime: 'native';
    readonly egress: 'native';
}

export declare class VercelProvider extends DriverProvider<VercelCapabilities> {
    constructor(options?: VercelProviderOptions);
}

export interface VercelProviderOptions {
    token?: string;
    teamId?: string;
    projectId?: string;
    oidcToken?: string | OidcTokenSource;
    baseUrl?: string;
    fetch?: typeof globalThis.fetch;
    secrets?: SecretSource;
    sdk?: unknown;
    namePrefix?: string;
    requestTimeoutMs?: number;
    silenceMs?: number;
}

export declare class VercelSandboxExecutor extends ProviderSandboxExecutor {
    constructor({ vercel, provider, runtime, create, ...rest }?: VercelSandboxExecutorOptions);
}

export interface VercelSandboxExecutorOptions extends Partial<ProviderSandboxExecutorOptions> {
    runtime?: string;
    vercel?: VercelProviderOptions;
}

export declare class Vfs {
    readonly root: VfsDirectory;
    readonly workdir: string;
    readonly now: () => number;
    readonly watchers: Set<(type: FileChange['type'], path: string) => void>;
    constructor(workdir: string, now: () => number, root?: VfsDirectory);
    copy(): VfsDirectory;
    place(path: string, options: {
        follow: boolean;
    }): Place;
    node(path: string, options: {
        follow: boolean;
    }): VfsNode;
    put(place: Place, node: VfsNode): void;
    remove(place: Place): void;
    tell(type: FileChange['type'], path: string): void;
}

export interface VfsDirectory {
    readonly type: 'directory';
    readonly entries: Map<string, VfsNode>;
    mode: number;
    mtimeMs: number;
}

export interface VfsFile {
    readonly type: 'file';
    content: Content;
    mode: number;
    mtimeMs: number;
}

export type VfsNode = VfsFile | VfsDirectory | VfsSymlink;

export interface VfsSymlink {
    readonly type: 'symlink';
    readonly target: string;
    readonly mode: number;
    readonly mtimeMs: number;
}

export interface VolumeAdmin {
    create(name: string, options?: CreateVolumeOptions): Promise<VolumeInfo>;
    get(name: string, options?: CallOptions): Promise<VolumeInfo>;
    list(options?: CallOptions): Promise<VolumeInfo[]>;
    remove(name: string, options?: CallOptions): Promise<boolean>;
}

export interface VolumeBehaviour {
    readonly id: string;
    readonly name: string;
    run(trial: VolumeTrial): Promise<void>;
}

export interface VolumeConformanceOptions {
    provider: () => VolumesUnderTest | Promise<VolumesUnderTest>;
    canLimit: boolean;
}

export interface VolumeInfo {
    name: string;
    status: 'ready' | 'lost';
    limitMb?: number;
    sizeBytes?: number;
    writerSessionId?: string;
    createdAt: Date;
}

export interface VolumeInfo {
    readonly name: string;
    readonly createdAt: Date;
    readonly sizeBytes?: number;
    readonly limitMb?: number;
    readonly writer?: string;
}

export interface VolumeMount {
    readonly name: string;
    readonly target: string;
    readonly readOnly?: boolean;
}

export declare class VolumeTrial {
    readonly provider: AnyProvider;
    readonly volumes: VolumeAdmin;
    readonly canLimit: boolean;
    constructor(provider: VolumesUnderTest, canLimit: boolean);
    volume(options?: CreateVolumeOptions & {
        name?: string;
    }): Promise<VolumeInfo>;
    mounting(...volumes: VolumeMount[]): Promise<AnySandbox>;
    adopt(sandbox: AnySandbox): AnySandbox;
    sh(sandbox: Pick<AnySandbox, 'runCommand'>, script: string): Promise<string>;
    cleanUp(): Promise<void>;
}

export type VolumesUnderTest = AnyProvider & {
    readonly volumes: VolumeAdmin;
};

export interface WaitExitOptions extends CallOptions {
    timeoutMs?: number;
}

export interface WaitOptions extends WaitExitOptions {
    maxOutputBytes?: number;
    collect?: true;
}

export interface WatchOptions extends CallOptions {
    recursive?: boolean;
}

export interface WriteFileOptions extends CallOptions {
    mode?: number;
}

export declare function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined, what?: string): Promise<T>;

export declare function abortedError(signal: AbortSignal, what?: string): SandboxError;

export declare function asBytes(data: Uint8Array<ArrayBuffer>): Bytes;

export declare function autoDetectProvider({ env, onDecision, }?: AutoDetectOptions): SandboxProvider | null;

export declare const behaviours: readonly Behaviour[];

export declare function checkCount(value: unknown, option: string, max: number): number;

export declare function checkKnown(options: object, known: readonly string[], call: string): void;

export declare function checkMs(value: unknown, option: string): number;

export declare function checkRuntimes<T = string>(runtimes: Readonly<Record<string, T>> | undefined, provider: string, nameOf?: (value: unknown) => unknown): Record<string, T>;

export declare function checkSecretValue(value: unknown, what: string): string;

export declare function chunksOf(source: BytesSource): AsyncGenerator<Uint8Array>;

export declare function cloneRepo(sandbox: RecipeSandbox, opts: CloneRepoOpts): Promise<CloneResult>;

export declare function concat(chunks: readonly Uint8Array[]): Bytes;

export declare function conformance(options: ConformanceOptions & {
    runner?: TestRunner;
    title?: string;
}): void;

export declare function createProvider(provider: string, settings: ProviderSettings): SandboxProvider;

export declare const daemonCapabilities: DaemonCapabilities;

export declare const defaultAllowedCommands: readonly string[];

export declare const defaultLimits: Limits;

export declare function defineProviderKind<Name extends string>(options: KindOptions<Name>): ProviderKind;

export declare function detectProvider(env?: Environment): Detection;

export declare const detectionTable: readonly DetectionRow[];

export declare function directory(now: number, mode: number): VfsDirectory;

export declare const e2bCapabilities: E2BCapabilities;

export declare function e2bOptionsOf(env: Readonly<Record<string, string | undefined>>): E2BProviderOptions;

export declare function encode(data: string | Uint8Array): Uint8Array;

export declare function errnoHint(errno: string | number | undefined, path?: string, access?: Access): string | Hints | undefined;

export declare function errnoOf(error: unknown): string | undefined;

export declare function errorOf(problem: Problem, status: number, requestId?: string): SandboxError;

export declare function errorOfResponse(response: Response): Promise<SandboxError>;

export declare const errorTable: {
    readonly invalid_argument: {
        readonly status: 400;
        readonly retryable: false;
        readonly hint: 'Change the option that the message names.';
    };
    readonly path_outside: {
        readonly status: 400;
        readonly retryable: false;
        readonly hint: 'Use a path below the sandbox’s working directory.';
    };
    readonly unauthenticated: {
        readonly status: 401;
        readonly retryable: false;
        readonly hint: 'Check the provider’s API key or token.';
    };
    readonly forbidden: {
        readonly status: 403;
        readonly retryable: false;
        readonly hint: 'Use credentials or an account with permission for this call.';
    };
    readonly not_found: {
        readonly status: 404;
        readonly retryable: false;
        readonly hint: 'List what exists with provider.list().';
    };
    readonly file_not_found: {
        readonly status: 404;
        readonly retryable: false;
        readonly hint: 'Check the path with files.exists() or files.list().';
    };
    readonly command_not_found: {
        readonly status: 404;
        readonly retryable: false;
        readonly hint: 'Install the program in the sandbox, or correct `cmd`.';
    };
    readonly cwd_not_found: {
        readonly status: 404;
        readonly retryable: false;
        readonly hint: 'Create the folder with files.mkdir(), or correct `cwd`.';
    };
    readonly conflict: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Choose another name, or use getOrCreate().';
    };
    readonly file_exists: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Remove the existing file first, or choose another path.';
    };
    readonly not_a_directory: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Part of the path is a file; choose another path.';
    };
    readonly is_a_directory: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'The path is a directory; name a file in it, or use { recursive: true }.';
    };
    readonly directory_not_empty: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Use { recursive: true } to remove its content too.';
    };
    readonly permission_denied: {
        readonly status: 403;
        readonly retryable: false;
        readonly hint: 'Check the owner and mode with files.stat(); files.chmod() changes the mode of files that the sandbox’s user owns.';
    };
    readonly not_running: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Start the sandbox with start(), or get it again with provider.get(id).';
    };
    readonly stdin_closed: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'Start the process with { stdin: "pipe" } and write before it ends.';
    };
    readonly interrupted: {
        readonly status: 409;
        readonly retryable: false;
        readonly hint: 'The sandbox was replaced or restarted; get a new handle with provider.get(id).';
    };
    readonly gone: {
        readonly status: 410;
        readonly retryable: false;
        readonly hint: 'Read sooner, or raise outputBufferBytes when the process is started.';
    };
    readonly too_large: {
        readonly status: 413;
        readonly retryable: false;
        readonly hint: 'Use the streaming call (files.readStream), or raise the limit.';
    };
    readonly rate_limited: {
        readonly status: 429;
        readonly retryable: true;
        readonly hint: 'Wait for details.retryAfterMs, then try again.';
    };
    readonly quota_exceeded: {
        readonly status: 429;
        readonly retryable: false;
        readonly hint: 'Destroy sandboxes that are not needed, or raise the quota.';
    };
    readonly aborted: {
        readonly status: 499;
        readonly retryable: false;
        readonly hint: 'The caller’s AbortSignal ended this call.';
    };
    readonly internal: {
        readonly status: 500;
        readonly retryable: false;
        readonly hint: 'This is a defect; please report it with the message and the cause.';
    };
    readonly unsupported: {
        readonly status: 501;
        readonly retryable: false;
        readonly hint: 'Check supports(sandbox, ability) first, or choose another provider.';
    };
    readonly sdk_missing: {
        readonly status: 501;
        readonly retryable: false;
        readonly hint: 'Install the vendor’s SDK package that the message names.';
    };
    readonly provider_error: {
        readonly status: 502;
        readonly retryable: false;
        readonly hint: 'See the cause: the provider returned an unexpected response.';
    };
    readonly connection_lost: {
        readonly status: 502;
        readonly retryable: true;
        readonly hint: 'Repeat the call. A process that was started detached, or with an id, keeps running: find it with getProcess(id).';
    };
    readonly unavailable: {
        readonly status: 503;
        readonly retryable: true;
        readonly hint: 'The provider cannot be reached now; try again later.';
    };
    readonly timeout: {
        readonly status: 504;
        readonly retryable: true;
        readonly hint: 'Raise timeoutMs.';
    };
    readonly disk_full: {
        readonly status: 507;
        readonly retryable: false;
        readonly hint: 'Free space on the disk that the message names.';
    };
};

export declare function failed(member: {
    readonly name: string;
}, place: number, durationMs: number, reason: SandboxError | undefined): FailoverAttempt;

export declare function failover<const P extends readonly SandboxProvider[]>(...providers: P): FailoverProvider<CommonCapabilities<P>>;
export declare function failover<const P extends readonly SandboxProvider[]>(...providersAndOptions: readonly [...P, FailoverOptions]): FailoverProvider<CommonCapabilities<P>>;

export declare function getSandboxExecutor(options?: GetSandboxExecutorOptions): SandboxExecutor;

export declare function gitCredentials(url: string, { username, password }: {
    username?: string;
    password: string;
}): Record<string, string>;

export declare function group(name: string, drafts: readonly Draft[]): Behaviour[];

export declare function guarded<T>(what: string, work: () => Promise<T>): Promise<T>;

export declare function hasRuntime(programs: Programs, name: string): boolean;

export declare function hostPrograms(options: HostProgramsOptions): Promise<Programs>;

export declare function identityOf(pid: number): Promise<ProcessIdentity>;

export declare function isAlive(identity: ProcessIdentity | undefined): Promise<boolean>;

export declare function isDamaged(error: unknown): boolean;

export declare function isSecretName(name: unknown): name is string;

export declare function keepAlive<S extends SandboxCore & (SandboxLifetime | SandboxActivity)>(sandbox: S & CanBeKept<S['capabilities']>, options?: KeepAliveOptions<NoInfer<S>['capabilities']>): KeepAlive;

export declare function localDriver(options?: LocalProviderOptions & {
    name?: string;
}): LocalDriver;

export declare function mappedRuntime<T>(provider: string, runtime: string, runtimes: Readonly<Record<string, T>>, kind: string): T;

export declare function matches(info: SandboxInfo, { labels, status, name }: ListSandboxesOpts): boolean;

export declare function maybeDone(error: unknown): unknown;

export declare function memoryCommands(provider: MemoryProvider): CommandKit;

export declare const memoryEgress: EgressTargets;

export declare function needHostRuntime(provider: string, runtime: string, options: HostProgramsOptions): Promise<void>;

export declare function noRuntime(provider: string, runtime: string, available: readonly string[], more?: string, cause?: unknown): SandboxError;

export declare function normalizeNetwork(network: unknown): NormalNetwork;

export declare function onAbort(signal: AbortSignal | undefined, callback: () => void): () => void;

export declare function onSandkasten<T extends object>(sdk: T, options: OnSandkastenOptions): T;

export declare function pageOf(infos: readonly SandboxInfo[], options: ListSandboxesOpts): SandboxPage;

export declare function placeholder(name: string): string;

export declare function posixCommands(options?: PosixCommandsOptions): CommandKit;

export declare const providerKinds: readonly ProviderKind[];

export declare function pullChanges(sandbox: RecipeSandbox, opts: PullChangesOpts & {
    as: 'patch';
}): Promise<PullPatchResult>;
export declare function pullChanges(sandbox: RecipeSandbox, opts: PullChangesOpts & {
    as: 'branch';
}): Promise<PullBranchResult>;
export declare function pullChanges(sandbox: RecipeSandbox, opts: PullChangesOpts): Promise<PullResult>;

export declare function quoteArg(arg: string): string;

export declare function quoteArgs(args: readonly string[]): string;

export declare function randomId(length?: number): string;

export declare function readRecord(folder: string): Promise<SandboxRecord | undefined>;

export declare const realClock: Clock;

export declare function removeFolder(folder: string): Promise<void>;

export declare function replaceFile(file: string, content: string | Uint8Array, what?: string): Promise<void>;

export declare function requiredSets(kind: Pick<ProviderKind, 'alternatives' | 'fields'>): ReadonlyArray<readonly string[]>;

export declare function retry<T>(call: (attempt: number) => Promise<T>, options?: RetryOptions & CallOptions): Promise<T>;

export declare function runConformance(options: ConformanceOptions): Promise<ConformanceReport>;

export declare function runVolumeBehaviour(behaviour: VolumeBehaviour, provider: VolumesUnderTest, canLimit: boolean): Promise<void>;

export declare function runtimeNames({ node, python }: Programs): string[];

export declare function sandboxTools(executor: SandboxExecutor, options?: SandboxToolsOptions): SandboxTool[];

export declare function secret(name: string, options?: SecretOptions): SecretValue;

export declare const secretLimits: {
    readonly leastBytes: 6;
    readonly mostBytes: 4096;
    readonly perPolicy: 64;
    readonly policyBytes: 65536;
};

export declare function settingsFromVariables(kind: Pick<ProviderKind, 'alternatives' | 'fields'>, env: Readonly<Record<string, string | undefined>>): ProviderSettings;

export declare const spritesCapabilities: SpritesCapabilities;

export declare function spritesOptionsOf(env: Readonly<Record<string, string | undefined>>): {
    token?: string;
    baseUrl?: string;
};

export declare const sshCapabilities: Readonly<{
    readonly stdin: 'native';
    readonly mergedOutput: 'native';
    readonly reattach: 'native';
    readonly shell: 'native';
    readonly terminal: 'emulated';
    readonly ports: 'emulated';
    readonly stop: 'native';
    readonly lifetime: 'native';
}>;

export declare function sshOptionsOf(env: Readonly<Record<string, string | undefined>>): SshProviderOptions;

export declare function sshTargetOf(text: string): Pick<SshProviderOptions, 'host' | 'username' | 'port'> | undefined;

export declare function streamOf(chunks: AsyncIterable<Uint8Array> & Partial<ByteSource>): ReadableStream<Uint8Array>;

export declare function supports<S extends {
    readonly capabilities: Capabilities;
    readonly sandboxId: string;
}, A extends Ability>(sandbox: S, ability: A): sandbox is S & Needs<A> & PartOf<A, 'sandbox'> & {
    readonly files: PartOf<A, 'files'>;
};
export declare function supports<P extends {
    readonly capabilities: Capabilities;
}, A extends Ability>(provider: P, ability: A): provider is P & Needs<A> & PartOf<A, 'provider'>;

export declare function sweepLocks(folder: string): Promise<void>;

export declare function takeSource(stream: ReadableStream<Uint8Array>): ByteSource | undefined;

export declare function throwIfAborted(signal: AbortSignal | undefined, what?: string): void;

export declare function translate(error: unknown, what: string): SandboxError;

export declare function uploadProject(sandbox: RecipeSandbox, opts: UploadProjectOpts): Promise<UploadResult>;

export declare const vercelCapabilities: VercelCapabilities;

export declare function vercelOptionsOf(env: Readonly<Record<string, string | undefined>>): {
    token?: string;
    teamId?: string;
    projectId?: string;
    oidcToken?: string;
};

export declare function vercelRequestToken(): string | undefined;

export declare const volumeBehaviours: readonly VolumeBehaviour[];

export declare function volumeConformance(options: VolumeConformanceOptions & {
    runner: TestRunner;
    title?: string;
}): void;

export declare function withLock<T>(file: string, work: () => Promise<T>, seals?: string): Promise<T>;

export declare function withRetry<T extends RetrySubject>(subject: T, options?: RetryOptions): T;

export declare function writeRecord(folder: string, record: SandboxRecord, { first }?: {
    first?: boolean;
}): Promise<void>;
