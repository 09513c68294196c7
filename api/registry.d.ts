// @sandkasten/registry
//   ConfiguredProvider
//   CreateOptions
//   Credentials
//   DeleteSnapshotOptions
//   DestroyResult
//   Hold
//   HoldOptions
//   InterruptingOptions
//   Limits
//   ListOptions
//   NamedSandbox
//   NamedSnapshot
//   OpenRegistryOptions
//   Operation
//   OperationOptions
//   ProgressStep
//   ReconcileReport
//   RecordStatus
//   Registry
//   SandboxRecord
//   SandboxSecrets
//   SandboxSettings
//   Scope
//   ScopedRegistry
//   SecretChange
//   SecretOptions
//   SetupOptions
//   SnapshotListOptions
//   StoredSecret
//   Timeouts
//   Use
//   WorkReport
//   freeName
//   openRegistry
//   suggest

// @sandkasten/registry/internal
//   BeatWatch
//   stateOf
//   thisHolder

export declare class BeatWatch {
    constructor(now?: () => number);
    isSilent(key: string, beat: string): boolean;
    forget(key: string): void;
}

export interface ConfiguredProvider {
    readonly provider: string;
    readonly title: string;
    readonly label?: string;
    readonly isDefault: boolean;
    readonly settings: Readonly<Record<string, string>>;
    readonly secrets: readonly string[];
    readonly checkedAt?: Date;
    readonly stored: boolean;
}

export interface CreateOptions extends CallOptions {
    name?: string;
    provider?: string;
    repo?: string;
    gitToken?: string;
    upload?: string;
    snapshotId?: string;
    image?: string;
    runtime?: string;
    envVars?: Readonly<Record<string, string | undefined>>;
    label?: string;
    labels?: Readonly<Record<string, string>>;
    lifetimeMs?: number;
    idleStopMs?: number;
    ports?: readonly number[];
    resources?: SandboxResources;
    user?: SandboxUser;
    network?: Network;
    providerOptions?: Readonly<Record<string, unknown>>;
    threadId?: string;
    onProgress?: (step: ProgressStep) => void;
    timeoutMs?: number;
}

export interface Credentials {
    list(scope?: Scope): Promise<ConfiguredProvider[]>;
    setup(provider: string, settings: Readonly<Record<string, string>>, options?: SetupOptions): Promise<ConfiguredProvider>;
    remove(provider: string, options?: {
        scope?: Scope;
        force?: boolean;
    }): Promise<boolean>;
    setDefault(provider: string, options?: {
        scope?: Scope;
    }): Promise<void>;
    rotateKey(): Promise<{
        keyId: string;
        values: number;
    }>;
}

export interface DeleteSnapshotOptions extends SnapshotListOptions {
    force?: boolean;
}

export interface DestroyResult {
    readonly existed: boolean;
    readonly threads: readonly string[];
    readonly snapshotId?: string;
}

export interface Hold extends AsyncDisposable, NamedSandbox {
    readonly signal: AbortSignal;
    release(): Promise<void>;
}

export interface HoldOptions extends OperationOptions {
    threadId?: string;
    purpose?: string;
}

export type HolderState = 'alive' | 'dead' | 'elsewhere';

export interface InterruptingOptions extends OperationOptions {
    force?: boolean;
    threadId?: string;
}

export interface Limits {
    readonly perGuild: number;
    readonly perChannel: number;
}

export interface ListOptions extends CallOptions {
    status?: RecordStatus | readonly RecordStatus[];
    provider?: string;
    channel?: boolean;
    refresh?: boolean | {
        timeoutMs: number;
    };
    destroyed?: boolean;
}

export interface NamedSandbox {
    readonly record: SandboxRecord;
    readonly handle: SandboxHandle;
    readonly incarnation: number;
}

export interface NamedSnapshot extends SnapshotInfo {
    readonly provider: string;
    readonly sandbox?: string;
    readonly isLast: boolean;
}

export interface OpenRegistryOptions {
    readonly database?: DatabaseLocation;
    readonly dataDir?: string;
    readonly kinds?: readonly ProviderKind[];
    readonly defaultProvider?: string;
    readonly limits?: Partial<Limits>;
    readonly timeouts?: Partial<Timeouts>;
    readonly env?: Readonly<Record<string, string | undefined>>;
}

export type Operation = 'create' | 'start' | 'restore' | 'stop' | 'snapshot' | 'destroy' | 'network' | 'check';

export interface OperationOptions extends CallOptions {
    onProgress?: (step: ProgressStep) => void;
    timeoutMs?: number;
}

export interface ProgressStep {
    readonly step: 'create' | 'clone' | 'upload' | 'start' | 'restore' | 'snapshot' | 'stop' | 'destroy' | 'wait' | 'done';
    readonly message: string;
    readonly done?: number;
    readonly total?: number;
}

export interface ReconcileReport extends WorkReport {
    readonly orphans: readonly SandboxInfo[];
    readonly unreachable: ReadonlyArray<{
        readonly provider: string;
        readonly error: unknown;
    }>;
}

export type RecordStatus = 'creating' | 'running' | 'paused' | 'stopped' | 'archived' | 'failed' | 'destroyed' | 'unknown';

export interface Registry extends AsyncDisposable {
    readonly id: string;
    in(scope?: Scope): ScopedRegistry;
    readonly credentials: Credentials;
    readonly secrets: SandboxSecrets;
    doDueWork(options?: CallOptions): Promise<WorkReport>;
    work(options: CallOptions & {
        onReport?: (report: WorkReport) => void;
    }): Promise<void>;
    hasWorker(): Promise<boolean>;
    reconcile(options?: CallOptions & {
        provider?: string;
    }): Promise<ReconcileReport>;
    close(): Promise<void>;
}

export interface SandboxRecord {
    readonly id: string;
    readonly name: string;
    readonly provider: string;
    readonly providerSandboxId?: string;
    readonly status: RecordStatus;
    readonly unreachable: boolean;
    readonly errorMessage?: string;
    readonly incarnation: number;
    readonly baseUrl?: string;
    readonly snapshotId?: string;
    readonly snapshotAt?: Date;
    readonly repoUrl?: string;
    readonly label?: string;
    readonly directory?: string;
    readonly image?: string;
    readonly ports: readonly number[];
    readonly network?: Network;
    readonly channelId?: string;
    readonly expiresAt?: Date;
    readonly idleStopMs?: number;
    readonly lastUsedAt: Date;
    readonly lastCheckedAt?: Date;
    readonly createdAt: Date;
    readonly threads: readonly string[];
    readonly uses: readonly Use[];
}

export interface SandboxSecrets {
    list(scope?: Scope): Promise<StoredSecret[]>;
    put(name: string, value: string, options?: SecretOptions): Promise<StoredSecret & SecretChange>;
    delete(name: string, options?: SecretOptions): Promise<SecretChange & {
        readonly existed: boolean;
    }>;
}

export interface SandboxSettings {
    readonly projectPath?: string;
    readonly image?: string;
    readonly runtime?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly lifetimeMs?: number;
    readonly ports?: readonly number[];
    readonly resources?: SandboxResources;
    readonly user?: SandboxUser;
    readonly network?: Network;
    readonly networkNext?: Network;
    readonly providerOptions?: Readonly<Record<string, unknown>>;
}

export interface Scope {
    readonly appId?: string;
    readonly guildId?: string;
    readonly channelId?: string;
}

export interface ScopedRegistry {
    readonly scope: Scope;
    create(options?: CreateOptions): Promise<NamedSandbox>;
    get(name: string, options?: CallOptions): Promise<SandboxRecord>;
    list(options?: ListOptions): Promise<SandboxRecord[]>;
    resume(name: string, options?: OperationOptions): Promise<NamedSandbox>;
    start(name: string, options?: OperationOptions): Promise<NamedSandbox>;
    stop(name: string, options?: InterruptingOptions): Promise<SandboxRecord>;
    snapshot(name: string, options?: InterruptingOptions & {
        snapshotName?: string;
    }): Promise<{
        snapshotId: string;
    }>;
    setNetwork(name: string, network: Network, options?: OperationOptions): Promise<SandboxRecord>;
    listSnapshots(options?: SnapshotListOptions): Promise<NamedSnapshot[]>;
    deleteSnapshot(snapshotId: string, options?: DeleteSnapshotOptions): Promise<boolean>;
    destroy(name: string, options?: InterruptingOptions): Promise<DestroyResult>;
    rename(name: string, newName: string): Promise<SandboxRecord>;
    attach(threadId: string, name: string): Promise<SandboxRecord>;
    detach(threadId: string): Promise<boolean>;
    ofThread(threadId: string): Promise<SandboxRecord | undefined>;
    touch(name: string): Promise<void>;
    hold(name: string, options?: HoldOptions): Promise<Hold>;
    setOpencodePassword(name: string, password: string): Promise<void>;
    opencodePassword(name: string): Promise<string | undefined>;
    setBaseUrl(name: string, baseUrl: string | undefined): Promise<void>;
}

export interface SecretChange {
    readonly sandboxes: readonly string[];
    readonly failed: ReadonlyArray<{
        readonly sandbox: string;
        readonly error: unknown;
    }>;
}

export interface SecretOptions {
    readonly scope?: Scope;
}

export interface SetupOptions extends CallOptions {
    scope?: Scope;
    label?: string;
    makeDefault?: boolean;
    check?: boolean;
    timeoutMs?: number;
}

export interface SnapshotListOptions extends CallOptions {
    provider?: string;
}

export interface StoredSecret {
    readonly name: string;
    readonly version: number;
    readonly createdAt: Date;
    readonly updatedAt: Date;
}

export interface Timeouts {
    readonly lookMs: number;
    readonly changeMs: number;
    readonly settleMs: number;
    readonly cleanUpMs: number;
}

export interface Use {
    readonly threadId?: string;
    readonly purpose: string;
    readonly since: Date;
    readonly pid?: number;
}

export interface WorkReport {
    readonly done: ReadonlyArray<{
        readonly sandbox: string;
        readonly action: string;
    }>;
    readonly failed: ReadonlyArray<{
        readonly sandbox: string;
        readonly error: unknown;
    }>;
}

export declare function freeName(taken: Iterable<string>, random?: (below: number) => number): string;

export declare function openRegistry({ database, dataDir, kinds, defaultProvider, limits, timeouts, env: given, }?: OpenRegistryOptions): Promise<Registry>;

export declare function stateOf(text: string): Promise<HolderState>;

export declare function suggest(name: string, names: Iterable<string>): string[];

export declare function thisHolder(): Promise<string>;
