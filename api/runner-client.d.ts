// @sandkasten/runner-client
//   AttachOptions
//   CallOptions
//   CommandOptions
//   CommandResult
//   ConnectOptions
//   Content
//   DirectoryEntry
//   FileContent
//   FileFacts
//   FileOptions
//   LaunchOptions
//   ListeningPort
//   OpenShellOptions
//   OutputEvent
//   PortsChange
//   ProcessExit
//   ProcessHost
//   ProcessLimits
//   ProtocolError
//   ReadOptions
//   RunOptions
//   RunResult
//   RunnerClient
//   RunnerConnection
//   RunnerFiles
//   RunnerProcess
//   RunnerPrograms
//   RunnerShell
//   RunnerStats
//   ShellInfo
//   StartOptions
//   TaskInfo
//   TaskOutput
//   WatchEvent
//   Welcome
//   WriteOptions
//   gather

export interface AttachOptions extends ReadOptions, CallOptions {
    stdin?: boolean;
}

export type Bytes = string | Uint8Array;

export interface CallOptions {
    signal?: AbortSignal;
    answerTimeoutMs?: number;
}

export interface CborMap {
    [key: string]: CborValue | undefined;
}

export type CborValue = null | boolean | number | string | Uint8Array | CborValue[] | CborMap;

export interface CommandOptions extends ReadOptions, CallOptions {
    id: string;
    timeoutMs?: number;
    separate?: boolean;
    cols?: number;
    rows?: number;
    ringBytes?: number;
    bound?: boolean;
}

export interface CommandResult extends ProcessExit {
    output: Buffer;
    stderr: Buffer;
    omitted: number;
}

export interface ConnectOptions {
    timeoutMs?: number;
    signal?: AbortSignal;
}

export type Content = Bytes | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;

export interface DirectoryEntry extends FileFacts {
    path: string;
    pathBytes: Uint8Array;
}

export interface FileContent extends AsyncIterable<Buffer> {
    readInto(view: Uint8Array): Promise<number>;
    lend(take: Taker): Promise<void>;
    cancel(): void;
}

export interface FileFacts {
    kind: 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device';
    size: number;
    mode: number;
    uid: number;
    gid: number;
    mtimeMs: number;
    inode?: number;
    links: number;
    target?: Uint8Array;
}

export interface FileOptions extends CallOptions {
    cwd?: Bytes;
    user?: string;
}

export interface LaunchOptions {
    env?: Readonly<Record<string, Bytes | null>>;
    clearEnv?: boolean;
    cwd?: Bytes;
    user?: string;
    limits?: ProcessLimits;
    cols?: number;
    rows?: number;
}

export interface Lender {
    lend(on: boolean): void;
    keep(): (() => void) | undefined;
}

export interface ListeningPort {
    port: number;
    address: string;
    uid: number;
}

export interface OpenShellOptions extends LaunchOptions, CallOptions {
    id: string;
    shell?: 'bash' | 'sh';
    login?: boolean;
    loginTimeoutMs?: number;
}

export interface OutputChunk {
    channel: 'stdout' | 'stderr';
    number: number;
    data: Buffer;
}

export type OutputEvent = ({
    type: 'output';
} & OutputChunk) | {
    type: 'gone';
    from: number;
    to: number;
};

export interface Place {
    readonly cwd: string;
    readonly env: Readonly<Record<string, string>>;
}

export interface PortsChange {
    opened: ListeningPort[];
    closed: ListeningPort[];
}

export interface ProcessExit {
    exitCode?: number;
    signal?: string;
    timedOut: boolean;
    durationMs: number;
    userMs?: number;
    systemMs?: number;
    maxRssKb?: number;
    cwd?: Uint8Array;
    restarted?: boolean;
    shellExited?: boolean;
    loginSkipped?: string;
    last?: number;
}

export interface ProcessHost {
    client(): Promise<RunnerClient>;
    readonly bound: boolean;
    readonly writers: Map<string, TaskOutput>;
    oomKills(): Promise<number | undefined>;
    explain?(error: unknown): Promise<unknown>;
}

export interface ProcessLimits {
    cpuSeconds?: number;
    addressBytes?: number;
    dataBytes?: number;
    stackBytes?: number;
    fileBytes?: number;
    coreBytes?: number;
    openFiles?: number;
    processes?: number;
    pendingSignals?: number;
    queueBytes?: number;
    lockedBytes?: number;
}

export declare class ProtocolError extends Error {
    readonly name = "ProtocolError";
    readonly code: string;
    constructor(code: string, message: string);
}

export interface ReadOptions {
    after?: number;
    lossy?: boolean;
    until?: 'exit' | 'end';
}

export interface RunOptions extends Omit<StartOptions, 'stdin' | 'after' | 'until'> {
    input?: Content;
    maxBytes?: number;
}

export interface RunResult extends ProcessExit {
    stdout: Buffer;
    stderr: Buffer;
    omitted: number;
}

export declare class RunnerClient {
    readonly connection: RunnerConnection;
    readonly files: RunnerFiles;
    constructor(connection: RunnerConnection);
    static connect(stream: Duplex, options?: ConnectOptions): Promise<RunnerClient>;
    static connectUnix(path: string, options?: ConnectOptions): Promise<RunnerClient>;
    start(options: StartOptions): Promise<RunnerProcess>;
    startDetached(options: Omit<StartOptions, 'stdin'>): Promise<{
        pid: number;
        existed: boolean;
    }>;
    run(options: RunOptions): Promise<RunResult>;
    attach(id: string, options?: AttachOptions): Promise<TaskOutput>;
    wait(id: string, options?: CallOptions): Promise<ProcessExit>;
    signal(id: string, signal: string, options?: CallOptions & {
        group?: boolean;
    }): Promise<void>;
    resize(id: string, size: {
        cols: number;
        rows: number;
    }, options?: CallOptions): Promise<void>;
    list(options?: CallOptions): Promise<TaskInfo[]>;
    forget(id: string, options?: CallOptions): Promise<void>;
    openShell(options: OpenShellOptions): Promise<RunnerShell>;
    listShells(options?: CallOptions): Promise<ShellInfo[]>;
    dial(port: number, options?: CallOptions): Promise<Duplex>;
    ports(options?: CallOptions): Promise<ListeningPort[]>;
    watchPorts(options?: CallOptions): Promise<{
        ports: ListeningPort[];
        changes: AsyncGenerator<PortsChange, void, void>;
    }>;
    stats(options?: CallOptions): Promise<RunnerStats>;
    ping(timeoutMs?: number): Promise<void>;
    close(): void;
    [Symbol.dispose](): void;
}

export declare class RunnerConnection implements StreamHost {
    readonly welcome: Welcome;
    readonly closed: Promise<Error | undefined>;
    static connect(socket: Duplex, options?: ConnectOptions): Promise<RunnerConnection>;
    get ended(): boolean;
    request(op: string, body: CborMap, options?: StreamOptions): RunnerStream;
    ping(timeoutMs?: number): Promise<void>;
    violated(error: ProtocolError): Error;
    close(): void;
    sendData(stream: number, data: Uint8Array): Promise<void> | undefined;
    sendEnd(stream: number): void;
    sendCancel(stream: number): void;
    sendWindow(stream: number, size: number): void;
    lend(on: boolean): void;
    keep(): (() => void) | undefined;
}

export declare class RunnerFiles {
    constructor(connection: RunnerConnection);
    readStream(path: Bytes, options?: FileOptions & {
        offset?: number;
        length?: number;
    }): Promise<{
        facts: FileFacts;
        content: FileContent;
    }>;
    read(path: Bytes, options?: FileOptions & {
        offset?: number;
        length?: number;
        maxBytes?: number;
    }): Promise<Buffer>;
    write(path: Bytes, content: Content, options?: WriteOptions): Promise<number>;
    list(path: Bytes, options?: FileOptions & {
        depth?: number;
    }): AsyncGenerator<DirectoryEntry, void, void>;
    stat(path: Bytes, options?: FileOptions & {
        noFollow?: boolean;
    }): Promise<FileFacts>;
    mkdir(path: Bytes, options?: FileOptions & {
        parents?: boolean;
        mode?: number;
    }): Promise<boolean>;
    rename(from: Bytes, to: Bytes, options?: FileOptions & {
        exclusive?: boolean;
    }): Promise<void>;
    remove(path: Bytes, options?: FileOptions & {
        recursive?: boolean;
        force?: boolean;
    }): Promise<number>;
    chmod(path: Bytes, mode: number, options?: FileOptions): Promise<void>;
    watch(path: Bytes, options?: FileOptions & {
        recursive?: boolean;
    }): Promise<AsyncGenerator<WatchEvent, void, void>>;
    tar(path: Bytes, options?: FileOptions): Promise<AsyncIterable<Buffer>>;
    untar(path: Bytes, archive: Content, options?: FileOptions & {
        parents?: boolean;
    }): Promise<{
        entries: number;
        skipped: number;
    }>;
}

export declare class RunnerProcess extends TaskOutput {
    readonly id: string;
    readonly pid: number;
    readonly existed: boolean;
    constructor(connection: RunnerConnection, stream: RunnerStream, started: {
        id: string;
        pid: number;
        existed: boolean;
    });
}

export declare class RunnerPrograms {
    constructor(host: ProcessHost);
    spawn(client: RunnerClient, spec: ProcessSpec, place: Place & {
        execId: string;
        oomBefore?: number;
    }, call: CallOptions): Promise<ProcessDriver>;
    getProcess(execId: string): Promise<ProcessDriver>;
    listProcesses(): Promise<ProcessInfo[]>;
    openShell(name: string, { cwd, env, login }: Place & {
        login: boolean;
    }, { signal }: CallOptions): Promise<SandboxShell>;
    openTerminal(terminalId: string, argv: readonly string[], { cwd, env, cols, rows }: Place & {
        cols: number;
        rows: number;
    }, { signal }: CallOptions): Promise<SandboxTerminal>;
}

export declare class RunnerShell {
    readonly id: string;
    readonly shell: string | undefined;
    readonly existed: boolean;
    constructor(connection: RunnerConnection, id: string, open: {
        shell?: string;
        existed: boolean;
    });
    start(command: Bytes, options: CommandOptions): Promise<TaskOutput>;
    exec(command: Bytes, options: CommandOptions & {
        maxBytes?: number;
    }): Promise<CommandResult>;
    close(options?: CallOptions): Promise<void>;
}

export interface RunnerStats {
    uptimeMs: number;
    rssBytes?: number;
    connections: number;
    tasks: number;
    running: number;
    shells: number;
    processes?: number;
    memoryBytes?: number;
    memoryLimitBytes?: number;
    cpuUsec?: number;
    oomKills?: number;
}

export declare class RunnerStream {
    readonly id: number;
    readonly op: string;
    readonly opened: Promise<CborMap>;
    readonly done: Promise<CborMap>;
    constructor(host: StreamHost, id: number, op: string, options?: StreamOptions);
    get finished(): boolean;
    next(): Promise<StreamItem | undefined>;
    readInto(view: Uint8Array): Promise<number>;
    lend(take: Taker): Promise<void>;
    discard(): void;
    write(data: Uint8Array): Promise<void>;
    end(): Promise<void>;
    cancel(): void;
    open(body: CborMap): void;
    receive(item: StreamItem): void;
    receiveEnd(): void;
    grant(bytes: number): void;
    finish(body: CborMap): void;
    fail(error: Error): void;
    lost(cause: unknown): void;
}

export interface ShellInfo {
    id: string;
    pid?: number;
    shell?: string;
    cwd?: Uint8Array;
    running?: string;
    queued: number;
}

export interface StartOptions extends LaunchOptions, ReadOptions, CallOptions {
    id: string;
    argv: readonly Bytes[];
    stdin?: boolean;
    tty?: boolean;
    merged?: boolean;
    timeoutMs?: number;
    graceMs?: number;
    ringBytes?: number;
    bound?: boolean;
}

export interface StreamHost extends Lender {
    sendData(stream: number, data: Uint8Array): Promise<void> | undefined;
    sendEnd(stream: number): void;
    sendCancel(stream: number): void;
    sendWindow(stream: number, bytes: number): void;
}

export type StreamItem = {
    type: 'data';
    data: Buffer;
} | ({
    type: 'output';
} & OutputChunk) | {
    type: 'event';
    body: CborMap;
    bytes: number;
};

export interface StreamOptions {
    content?: boolean;
    wide?: boolean;
}

export type Taker = (piece: Uint8Array, done: () => void) => void;

export interface TaskInfo {
    id: string;
    kind: 'process' | 'command';
    pid?: number;
    running: boolean;
    first: number;
    last: number;
    exit?: ProcessExit;
}

export declare class TaskOutput implements AsyncIterable<OutputEvent> {
    readonly exit: Promise<ProcessExit>;
    constructor(connection: RunnerConnection, stream: RunnerStream, after?: number);
    write(data: Bytes): Promise<void>;
    endStdin(): Promise<void>;
    detach(): void;
    discard(): void;
    next(): Promise<OutputEvent | undefined>;
    [Symbol.asyncIterator](): AsyncIterator<OutputEvent>;
}

export interface WatchEvent {
    event: 'created' | 'modified' | 'written' | 'attributes' | 'deleted' | 'movedFrom' | 'movedTo' | 'overflow';
    path: string;
    pathBytes: Uint8Array;
    directory: boolean;
    cookie?: number;
}

export interface Welcome {
    major: number;
    minor: number;
    pid: number;
    boot: string;
}

export interface WriteOptions extends FileOptions {
    mode?: number;
    append?: boolean;
    exclusive?: boolean;
    parents?: boolean;
}

export declare function gather(content: AsyncIterable<Buffer>, maxBytes: number): Promise<Buffer>;
