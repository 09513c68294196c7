// @sandkasten/daemon
//   Daemon
//   DaemonConfig
//   DaemonOptions
//   DaemonProvider
//   LoadOptions
//   configOf
//   engineOptions
//   loadConfig
//   maskedConfig
//   readAddress
//   showConfig
//   startDaemon
//   version

// @sandkasten/daemon/config
//   DaemonConfig
//   LoadOptions
//   configOf
//   loadConfig
//   maskedConfig
//   readAddress
//   showConfig

export interface AuditRow {
    id: Generated<number>;
    project_id: string;
    key_id: string;
    subject: string | null;
    action: string;
    target: string | null;
    status: number;
    request_id: string;
    created_at: number;
}

export interface Caller {
    readonly projectId: string;
    readonly keyId: string;
    readonly scopes: readonly Scope[];
    readonly requestId: string;
    readonly quotas?: string | null;
    readonly policy?: string | null;
    readonly subject?: string;
    readonly token?: {
        readonly expiresAt: number;
        stillValid(): Promise<boolean>;
    };
}

export type CheckUsage = (usage: Usage) => void;

export type CheckVolumes = (found: VolumesInUse) => void;

interface Checks {
    check?: CheckUsage | undefined;
    volumes?: CheckVolumes | undefined;
}

export type Command = LiveCommand | StoredCommand;

interface CommandBase {
    readonly row: ExecRow;
    output(after: number, signal: AbortSignal): AsyncIterable<ProcessEvent>;
}

export type CommandRequest = ShellRequest | RunRequest;

export declare class Commands {
    constructor(context: Context, use: Use, budget: StoreBudget);
    start(caller: Caller, id: string, execId: string, request: CommandRequest, options?: UseOptions): Promise<Command>;
    find(caller: Caller, id: string, execId: string): Promise<Command>;
    list(caller: Caller, id: string, limit: number): Promise<ListedExec[]>;
    isWorking(id: string): boolean;
    recover(session: Session, used: Taken): Promise<void>;
    close(): void;
}

export declare class ConcurrencyLimit {
    constructor(most?: number);
    run<T>(projectId: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T>;
}

export interface Context {
    readonly config: DaemonConfig;
    readonly store: Store;
    readonly provider: DaemonProvider;
    readonly secrets: ProjectSecrets;
    readonly instanceId: string;
    readonly live: LiveSessions;
    readonly events: EventBus;
    readonly ends: EndTimer;
    readonly metrics: Metrics;
    readonly log: Log;
    readonly pool: Pool;
    readonly memory: ResultMemory;
}

export interface CreateRequest {
    image?: string;
    runtime?: string;
    snapshotId?: string;
    name?: string;
    labels?: Readonly<Record<string, string>>;
    env?: Readonly<Record<string, string>>;
    limits?: {
        cpu?: number;
        memoryMb?: number;
        pids?: number;
        diskMb?: number;
    };
    network?: GivenNetwork;
    keepHeaders?: true;
    ttlMs?: number;
    onIdle?: EndAction;
    lifetimeMs?: number;
    onLifetime?: EndAction;
    stoppedTtlMs?: number | null;
    wakeOnUse?: boolean;
    volumes?: readonly VolumeRequest[];
    account?: string;
    user?: 'root';
    tmp?: 'disk' | 'memory';
    idempotencyKey?: string;
}

export interface Created {
    readonly session: Session;
    readonly repeat: boolean;
    readonly notes: readonly string[];
}

export declare class Creator {
    constructor(context: Context);
    create(caller: Caller, asked: CreateRequest, signal?: AbortSignal): Promise<Created>;
    isPending(id: string): boolean;
    fork(caller: Caller, origin: Session, names: ReadonlyArray<string | undefined>, make: (count: number) => Promise<Array<Sandbox | Error>>): Promise<Array<Session | Error>>;
}

export interface Daemon {
    readonly url: string;
    readonly previewUrl?: string;
    readonly fronts: Fronts['urls'];
    readonly instanceId: string;
    readonly firstKey?: string;
    readonly sessions: SessionService;
    readonly isolation: string;
    close(): Promise<void>;
}

export interface DaemonConfig extends Omit<FileConfig, 'listen' | 'preview_listen' | 'data_dir' | 'engine_dir' | 'db_path' | 'allowed_images' | 'fronts'> {
    readonly listen: ListenAddress;
    readonly preview_listen?: ListenAddress;
    readonly data_dir: string;
    readonly engine_dir: string;
    readonly db_path: string;
    readonly allowed_images: readonly string[];
    readonly fronts: Readonly<Partial<Record<FrontName, FrontConfig>>>;
    readonly file?: string;
}

export interface DaemonOptions {
    config: DaemonConfig;
    provider?: DaemonProvider;
    log?: Log;
    patience?: Patience;
    env?: Readonly<Record<string, string | undefined>>;
    ownsProcess?: boolean;
}

export type DaemonProvider = SandboxProvider & {
    close?(): Promise<void> | void;
    stats?(sandboxId: string): Promise<object>;
    dial?: ((sandboxId: string, port: number) => Promise<Duplex>) | undefined;
    onEnded?(listener: (info: SandboxInfo) => void): void;
    watch?(sandboxId: string): Promise<void>;
    handOver?(sandboxId: string, to: {
        labels: Readonly<Record<string, string>>;
        envVars: Readonly<Record<string, string>>;
    }): Promise<void>;
    imageForRuntime?(runtime: string, among: readonly string[]): Promise<string>;
    readonly volumes?: VolumeAdmin;
    egressEvents?(sandboxId: string, options: {
        after?: number;
        follow?: boolean;
        signal?: AbortSignal;
    }): AsyncIterable<{
        readonly seq: number;
        readonly at: number;
        readonly kind: 'tcp' | 'tls' | 'http' | 'dns' | 'udp' | 'icmp' | 'other';
        readonly host: string | null;
        readonly address: string | null;
        readonly port: number | null;
        readonly verdict: 'allowed' | 'denied' | 'audit' | 'error';
        readonly rule: string | null;
        readonly reason: string | null;
        readonly bytesIn: number;
        readonly bytesOut: number;
        readonly durationMs: number;
        readonly method: string | null;
        readonly path: string | null;
        readonly status: number | null;
    }>;
    egressStats?(sandboxId: string): Promise<{
        readonly connections: number;
    }>;
    refreshSecrets?(): Promise<void>;
    sweep?(): Promise<unknown>;
};

export type EgressEvent = NonNullable<DaemonProvider['egressEvents']> extends (...args: never[]) => AsyncIterable<infer Event> ? Event : never;

export declare class EgressWatch {
    constructor(context: Context);
    get size(): number;
    learned(sessionId: string): Learned | undefined;
    tend(): Promise<void>;
    close(): void;
    static learn(learned: Learned, { kind, verdict, host, address, port }: EgressEvent): void;
}

export type EndAction = z.infer<typeof endAction>;

export declare class EndTimer {
    start(onDue: () => void): () => void;
    note(session: Leased): void;
    at(time: number): void;
    clear(): void;
}

export declare class EventBus {
    constructor(store: Store, log: Log);
    publish(event: {
        projectId: string;
        sessionId?: string;
        type: string;
        data?: Record<string, unknown>;
    }): void;
    list(projectId: string, options: {
        after: number;
        limit: number;
        sessionId?: string;
    }): Promise<SessionEvent[]>;
    last(): Promise<number>;
    follow(projectId: string, options: {
        after: number;
        sessionId?: string;
        signal: AbortSignal;
    }): AsyncGenerator<SessionEvent>;
    flush(): Promise<void>;
    close(): Promise<void>;
}

export interface EventRow {
    id: Generated<number>;
    project_id: string;
    session_id: string | null;
    type: string;
    data: string;
    created_at: number;
}

export interface ExecRow {
    session_id: string;
    project_id: string;
    exec_id: string;
    kind: 'exec' | 'run' | 'terminal';
    status: 'running' | 'done' | 'lost';
    detached: number;
    incarnation: number;
    shell: string | null;
    command: string;
    fingerprint: string;
    created_at: number;
    ended_at: number | null;
    result: string | null;
    events: string | null;
    bytes: number;
}

export declare class Execs {
    constructor(db: Kysely<Tables>);
    get(sessionId: string, execId: string): Promise<ExecRow | undefined>;
    list(sessionId: string, options: {
        limit: number;
        maxBytes: number;
        kind?: 'terminal';
    }): Promise<ListedExec[]>;
    running(sessionId: string): Promise<ExecRow[]>;
    countRunning(sessionId: string, kind: ExecRow['kind']): Promise<number>;
    insert(row: ExecRow): Promise<boolean>;
    update(sessionId: string, execId: string, changes: Partial<ExecRow>): Promise<void>;
    keptBytes(): Promise<Map<string, number>>;
    dropOldest(projectId: string, bytes: number): Promise<number>;
    delete(sessionId: string, execId: string): Promise<void>;
    prune(sessionId: string, keep: number): Promise<void>;
}

export interface FactRow {
    name: string;
    value: string;
}

export type FileConfig = z.infer<typeof fileSchema>;

export interface FrontConfig {
    readonly listen: ListenAddress;
    readonly url?: string;
    readonly user?: 'root';
}

export type FrontName = 'e2b' | 'daytona' | 'vercel' | 'opensandbox';

export interface FrontRow {
    front: string;
    project_id: string;
    kind: string;
    key: string;
    session_id: string | null;
    data: string;
    created_at: number;
}

export interface Fronts {
    readonly urls: Readonly<Partial<Record<FrontName, string>>>;
    readonly listening: readonly string[];
    close(): Promise<void>;
}

export declare class Fronts {
    constructor(db: Kysely<Tables>);
    get(front: string, projectId: string, kind: string, key: string): Promise<FrontRow | undefined>;
    list(front: string, projectId: string, kind: string): Promise<FrontRow[]>;
    ofSession(front: string, sessionId: string, kind: string): Promise<FrontRow[]>;
    count(sessionId: string, kind: string): Promise<number>;
    forgetOldest(sessionId: string, kind: string, keep: number): Promise<void>;
    put(row: FrontRow): Promise<void>;
    insert(row: FrontRow): Promise<boolean>;
    delete(front: string, projectId: string, kind: string, key: string): Promise<boolean>;
}

export type GivenNetwork = 'none' | 'open' | GivenPolicy;

export interface GivenPolicy extends Omit<NetworkPolicy, 'services'> {
    readonly services?: readonly string[] | Readonly<Record<string, unknown>>;
}

export interface IdempotencyRow {
    project_id: string;
    key: string;
    fingerprint: string;
    session_id: string;
    created_at: number;
}

export type InsertResult = {
    kind: 'created';
} | {
    kind: 'name-taken';
} | {
    kind: 'repeat';
    sessionId: string;
    fingerprint: string;
};

interface Keep {
    readonly rows: number;
    readonly bytes: number;
}

export interface KeyRow {
    id: string;
    project_id: string;
    name: string;
    hash: string;
    scopes: string;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    subject: string | null;
}

export declare class Keys {
    constructor(db: Kysely<Tables>);
    byHash(hash: string): Promise<OpeningKey | undefined>;
    get(projectId: string, id: string): Promise<KeyRow | undefined>;
    list(projectId: string): Promise<KeyRow[]>;
    insert(row: KeyRow, most: number): Promise<boolean>;
    usableIds(projectId: string, now: number): Promise<string[]>;
    insertGrant(row: Omit<KeyRow, 'hash'>, most: number): Promise<boolean>;
    upsert(row: KeyRow): Promise<void>;
    revoke(projectId: string, id: string, now: number): Promise<boolean>;
    project(id: string): Promise<ProjectRow | undefined>;
    projects(): Promise<ProjectRow[]>;
    projectNamed(name: string): Promise<ProjectRow | undefined>;
    insertProject(row: ProjectRow): Promise<void>;
    ensureProject(row: ProjectRow): Promise<void>;
    ensureProjectNamed(row: ProjectRow): Promise<ProjectRow>;
    setPolicy(id: string, policy: string | null): Promise<boolean>;
    setQuotas(id: string, quotas: string | null): Promise<boolean>;
}

type Labels = Readonly<Record<string, string | number>>;

export type Learned = Map<string, {
    readonly host: string | null;
    readonly address: string;
    readonly port: number;
}>;

export interface LeaseChanges {
    ttlMs?: number;
    onIdle?: EndAction;
    lifetimeMs?: number | null;
    onLifetime?: EndAction;
    stoppedTtlMs?: number | null;
}

export declare class LeaseWriter {
    constructor(context: Context);
    write(): Promise<void>;
    mindTheClock(now?: number, passed?: number): Promise<number>;
}

export type Leased = Pick<Session, 'id' | 'status' | 'status_at' | 'started_at' | 'last_activity' | 'ttl_ms' | 'on_idle' | 'lifetime_ms' | 'on_lifetime' | 'stopped_ttl_ms'>;

export declare class Lifecycle {
    onResumed: (session: Session) => void;
    constructor(context: Context);
    opened(session: Session, wake: {
        by: string;
    } | undefined): Promise<{
        session: Session;
        open: Open;
    }>;
    start(id: string, by: string, { incarnation, reason }?: Meant & {
        reason?: string;
    }): Promise<Session>;
    stop(id: string, by: string, { incarnation }?: Meant): Promise<Session>;
    pause(id: string, by: string, { incarnation }?: Meant): Promise<Session>;
    resume(id: string, by: string, { incarnation, reason }?: Meant & {
        reason?: string;
    }): Promise<Session>;
    destroy(id: string, by: string, reason?: string, status?: 'destroyed' | 'expired'): Promise<boolean>;
    end(id: string, action: EndAction, reason: string, still: (session: Session) => Promise<boolean>): Promise<boolean>;
    crashed(session: Session, by: string, reason: string, disk: boolean): Promise<Session | undefined>;
}

export type ListedExec = Omit<ExecRow, 'events'> & {
    omitted: boolean;
};

export interface ListenAddress {
    readonly host: string;
    readonly port: number;
}

export interface LiveCommand extends CommandBase {
    readonly state: 'live';
    readonly done: Promise<ExecRow>;
    kill(signal: ProcessSignal): Promise<boolean>;
    write?(data: Uint8Array): Promise<void>;
    closeStdin?(): Promise<void>;
}

export declare class LiveSessions {
    hold(id: string): () => void;
    holds(id: string): number;
    locked<T>(id: string, work: () => Promise<T>): Promise<T>;
    busy(id: string): boolean;
    settled(id: string): Promise<void> | undefined;
    opened(id: string, incarnation: number): Open | undefined;
    open(id: string, incarnation: number, sandbox: Sandbox): Open;
    drop(id: string): void;
    touch(id: string, cwd?: string): void;
    touched(id: string): {
        at: number;
        cwd?: string;
    } | undefined;
    shift(ms: number): void;
    takeTouched(): Array<{
        id: string;
        at: number;
        cwd?: string;
    }>;
}

export interface LoadOptions {
    file?: string;
    cwd?: string;
    env?: Readonly<Record<string, string | undefined>>;
    overrides?: Readonly<Record<string, unknown>>;
}

export interface Log {
    debug(facts: object, message: string): void;
    info(facts: object, message: string): void;
    warn(facts: object, message: string): void;
    error(facts: object, message: string): void;
}

export interface Meant {
    incarnation?: number;
}

export declare class Metrics {
    constructor();
    count(name: string, labels?: Labels, by?: number): void;
    set(name: string, labels: Labels, value: number): void;
    observe(name: string, labels: Labels, seconds: number): void;
    onRead(gauge: () => Promise<void> | void): void;
    clear(name: string): void;
    text(): Promise<string>;
}

export declare class NetworksOfSessions {
    readonly watch: EgressWatch;
    constructor(context: Context, use: Use);
    set(caller: Caller, id: string, given: GivenNetwork, { incarnation }?: Meant): Promise<Session>;
    withKeptHeaders(caller: Caller, given: GivenNetwork): Promise<GivenNetwork>;
    events(caller: Caller, id: string, { after, limit, verdict }: {
        after?: number;
        limit: number;
        verdict?: string;
    }): Promise<{
        events: EgressEvent[];
        next: number;
    }>;
    follow(caller: Caller, id: string, { after, verdict, signal }: {
        after?: number;
        verdict?: string;
        signal: AbortSignal;
    }): AsyncGenerator<EgressEvent>;
    learned(caller: Caller, id: string): Promise<SessionNetwork>;
    secretOf(name: string, { sandboxId, sessionId }: {
        sandboxId: string;
        sessionId: string | undefined;
    }): Promise<string | undefined>;
    refreshSecrets(): Promise<void>;
    tend(): Promise<void>;
    recover(): Promise<void>;
}

export interface Open {
    readonly incarnation: number;
    readonly sandbox: Sandbox;
    readonly shells: Map<string, Promise<SandboxShell>>;
    readonly terminals: Set<string>;
}

export type OpeningKey = KeyRow & Pick<ProjectRow, 'quotas' | 'policy'>;

interface Parts {
    readonly lifecycle: Lifecycle;
    readonly creator: Creator;
    readonly commands: Commands;
    readonly use: Use;
    readonly volumes: VolumesOfProjects;
}

export interface Patience {
    readonly headMs: number;
    readonly bodyMs: number;
}

export interface Plan {
    readonly image: string;
    readonly cpu: number;
    readonly memoryMb: number;
    readonly pids: number;
    readonly diskMb: number;
    readonly network: SessionNetwork;
    readonly ttlMs: number;
    readonly onIdle: EndAction;
    readonly lifetimeMs: number | null;
    readonly onLifetime: EndAction;
    readonly wakeOnUse: boolean;
    readonly account?: string;
    readonly tmp: 'disk' | 'memory';
    readonly user?: 'root';
}

export type Policy = z.infer<typeof policySchema>;

export declare class Pool {
    readonly keeper: string;
    constructor(context: Omit<Context, 'pool'>, availableMb?: () => number);
    take(plan: Plan, given: {
        labels: Record<string, string>;
        envVars: Readonly<Record<string, string>>;
    }): Promise<Sandbox | undefined>;
    tend(): Promise<void>;
    close(): Promise<void>;
}

export interface PortRow {
    session_id: string;
    port: number;
    visibility: 'private' | 'token' | 'public';
    wake: number;
    token_hash: string | null;
    generation: string;
    created_at: number;
}

export declare class Ports {
    constructor(db: Kysely<Tables>);
    get(sessionId: string, port: number): Promise<PortRow | undefined>;
    list(sessionId: string): Promise<PortRow[]>;
    put(row: PortRow): Promise<void>;
    delete(sessionId: string, port: number): Promise<boolean>;
}

type Project = Pick<Caller, 'projectId'>;

export interface ProjectRow {
    id: string;
    name: string;
    quotas: string | null;
    policy: string | null;
    created_at: number;
    turn: number;
}

export declare class ProjectSecrets {
    onChange: (projectId: string, name: string) => Promise<void>;
    constructor(given: {
        store: Store;
        source: KeySource;
        log: Log;
    });
    start(): Promise<void>;
    list(project: Project): Promise<Secret[]>;
    known({ projectId }: Project): Promise<Secret[]>;
    keep(project: Project, value: string, host: string): Promise<string>;
    dropUnused(): Promise<void>;
    put(project: Project, name: string, given: {
        value: string;
        hosts?: readonly string[];
    }): Promise<Secret>;
    delete({ projectId }: Project, name: string): Promise<void>;
    values(projectId: string, names: readonly string[]): Promise<Record<string, string>>;
    rotateKey(): Promise<{
        keyId: string;
        values: number;
    }>;
}

export type ProviderFacts = Pick<DaemonProvider, 'isolation' | 'capabilities' | 'createOptions'>;

export declare class Reaper {
    constructor(context: Context, lifecycle: Lifecycle, commands: Commands, budget: StoreBudget);
    run(now?: number): Promise<number>;
    endDue(now?: number): Promise<void>;
    settled(): Promise<void>;
}

export declare class Reconciler {
    constructor(context: Context, parts: Parts);
    run(): Promise<void>;
    tidy(): Promise<void>;
    watch(): void;
    recover(): Promise<void>;
}

export type RecordBytes = Record<'events' | 'audit', number>;

export declare class Records {
    constructor(db: Kysely<Tables>);
    addEvents(rows: ReadonlyArray<Insertable<EventRow>>): Promise<void>;
    events(projectId: string, options: {
        after: number;
        limit: number;
        sessionId?: string;
    }): Promise<Array<Selectable<EventRow>>>;
    newestEvents(instanceId: string, limit: number): Promise<Array<Selectable<EventRow>>>;
    lastEvent(): Promise<number>;
    eventsBegin(): Promise<number>;
    addAudit(rows: ReadonlyArray<Insertable<AuditRow>>): Promise<void>;
    audit(projectId: string, options: {
        before?: number;
        limit: number;
    }): Promise<Array<Selectable<AuditRow>>>;
    prune(keep: Record<'events' | 'audit', Keep>): Promise<RecordBytes>;
}

export declare class ResultAccount implements OutputBudget {
    constructor(share: Share, limit: number, hasNeighbours: () => boolean);
    take(bytes: number): boolean;
    get held(): number;
    get room(): number;
    hold(bytes: number): void;
    pace(bytes: number): Promise<void> | undefined;
    release(): void;
}

export declare class ResultMemory {
    constructor(bytesPerProject: number);
    get usedBytes(): number;
    open(projectId: string): ResultAccount;
}

export interface Rules extends DaemonConfig {
    readonly policy: Policy;
    readonly longestIdleMs: number;
    readonly longestLifetimeMs: number;
}

export interface RunRequest {
    kind: 'run';
    cmd: string;
    args: readonly string[];
    env?: Readonly<Record<string, string>>;
    cwd?: string;
    output?: 'separate' | 'merged';
    timeoutMs?: number;
    stdin?: Uint8Array | 'pipe';
    detached: boolean;
    maxOutputBytes?: number;
    outputBufferBytes?: number;
}

export type Sandbox = SandboxHandle;

export type Scope = (typeof scopes)[number];

export interface Secret {
    readonly name: string;
    readonly version: number;
    readonly hosts?: readonly string[];
    readonly createdAt: number;
    readonly updatedAt: number;
}

export type SecretFacts = Omit<SecretRow, 'sealed'>;

export interface SecretRow {
    id: string;
    project_id: string;
    name: string;
    version: number;
    sealed: string;
    hosts: string | null;
    created_at: number;
    updated_at: number;
}

export declare class SecretRows {
    constructor(db: Kysely<Tables>);
    list(projectId: string): Promise<SecretFacts[]>;
    named(projectId: string, names: readonly string[]): Promise<SecretRow[]>;
    put(row: Pick<SecretRow, 'id' | 'project_id' | 'name' | 'hosts' | 'updated_at'>, seal: (id: string) => Promise<string>, most: number): Promise<SecretFacts | undefined>;
    dropInline(before: number): Promise<void>;
    stamp(): Promise<string>;
    delete(projectId: string, name: string): Promise<boolean>;
}

export type Session = SessionRow;

export interface SessionEvent {
    readonly id: number;
    readonly type: string;
    readonly sessionId: string | undefined;
    readonly data: Record<string, unknown>;
    readonly createdAt: number;
}

export interface SessionFilter {
    projectId: string;
    status?: readonly SessionStatus[];
    name?: string;
    subject?: string;
    labels?: Readonly<Record<string, string>>;
    limit: number;
    after?: {
        createdAt: number;
        id: string;
    };
}

export type SessionNetwork = 'none' | 'open' | SessionPolicy;

export interface SessionPolicy extends Omit<NormalPolicy, 'services'> {
    readonly services: readonly string[];
}

export interface SessionRow {
    id: string;
    project_id: string;
    instance_id: string;
    key_id: string;
    subject: string | null;
    name: string | null;
    status: SessionStatus;
    status_reason: string;
    status_by: string;
    status_at: number;
    sandbox_id: string | null;
    incarnation: number;
    image: string;
    labels: string;
    env_names: string;
    workdir: string | null;
    cwd: string | null;
    cpu: number;
    mem_mb: number;
    disk_mb: number;
    pids: number;
    network: string;
    network_policy: string | null;
    ttl_ms: number;
    on_idle: string;
    lifetime_ms: number | null;
    on_lifetime: string;
    stopped_ttl_ms: number | null;
    wake_on_use: number;
    run_user: string | null;
    writable_paths: string | null;
    snapshot_id: string | null;
    volumes: string;
    created_at: number;
    started_at: number;
    last_activity: number;
    live: number;
    starting: number;
}

export declare class SessionService {
    readonly use: Use;
    readonly commands: Commands;
    readonly snapshots: SnapshotsOfSessions;
    readonly volumes: VolumesOfProjects;
    readonly networks: NetworksOfSessions;
    readonly terminals: Terminals;
    readonly reaper: Reaper;
    readonly reconciler: Reconciler;
    readonly leases: LeaseWriter;
    readonly memory: ResultMemory;
    readonly provider: ProviderFacts;
    readonly largeCalls: ConcurrencyLimit;
    constructor(context: Context);
    create(caller: Caller, request: CreateRequest, signal?: AbortSignal): Promise<Created>;
    get(caller: Caller, id: string): Promise<Session>;
    lookup(id: string): Promise<Session | undefined>;
    lookupAll(): Promise<Session[]>;
    isHere({ instance_id }: Pick<Session, 'instance_id'>): boolean;
    touch(id: string, cwd?: string): void;
    hold(id: string): () => void;
    locked<T>(key: string, work: () => Promise<T>): Promise<T>;
    opened({ id, incarnation }: Session): Open | undefined;
    stats({ sandbox_id: sandboxId }: Session): Promise<object | undefined>;
    list(caller: Caller, filter: {
        status?: readonly SessionStatus[];
        name?: string;
        subject?: string;
        labels?: Readonly<Record<string, string>>;
        limit: number;
        after?: {
            createdAt: number;
            id: string;
        };
    }): Promise<Session[]>;
    start(caller: Caller, id: string, meant?: Meant): Promise<Session>;
    stop(caller: Caller, id: string, meant?: Meant): Promise<Session>;
    pause(caller: Caller, id: string, meant?: Meant): Promise<Session>;
    resume(caller: Caller, id: string, meant?: Meant): Promise<Session>;
    destroy(caller: Caller, id: string): Promise<boolean>;
    extend(caller: Caller, id: string, ms: number, meant?: Meant): Promise<Session>;
    setLeases(caller: Caller, id: string, leases: LeaseChanges): Promise<Session>;
    setLifetime(caller: Caller, id: string, ms: number | null): Promise<Session>;
    setLabels(caller: Caller, id: string, changes: Readonly<Record<string, string | null>>): Promise<Session>;
    audit(caller: Caller, options: {
        before?: number;
        limit: number;
    }): Promise<{
        action: string;
        created_at: number;
        id: number;
        key_id: string;
        project_id: string;
        request_id: string;
        status: number;
        subject: string | null;
        target: string | null;
    }[]>;
    rules(caller: Pick<Caller, 'projectId' | 'policy'>): Promise<Rules>;
    imageOfRuntime(caller: Pick<Caller, 'projectId' | 'policy'>, runtime: string): Promise<string>;
    usage(caller: Caller): Promise<{
        used: {
            sessions: number;
            cpu: number;
            mem_mb: number;
            disk_mb: number;
            volumes: number;
            volume_mb: number;
        };
        quotas: {
            sessions?: number | undefined;
            cpu?: number | undefined;
            mem_mb?: number | undefined;
            disk_mb?: number | undefined;
            snapshots?: number | undefined;
            snapshot_mb?: number | undefined;
            volumes?: number | undefined;
            volume_mb?: number | undefined;
        };
    }>;
}

export type SessionStatus = 'creating' | 'running' | 'paused' | 'stopped' | 'expired' | 'crashed' | 'failed' | 'destroyed';

export declare class Sessions {
    constructor(db: Kysely<Tables>);
    get(id: string): Promise<SessionRow | undefined>;
    list({ projectId, status, name, subject, labels, limit, after, }: SessionFilter): Promise<SessionRow[]>;
    shiftLeases(instanceId: string, ms: number): Promise<void>;
    live(instanceId: string): Promise<SessionRow[]>;
    withPolicy(instanceId: string): Promise<Array<Pick<SessionRow, 'id' | 'sandbox_id'>>>;
    withSandbox(instanceId: string, sandboxId: string): Promise<SessionRow | undefined>;
    leases(instanceId: string): Promise<{
        id: string;
        last_activity: number;
        lifetime_ms: number | null;
        on_idle: string;
        on_lifetime: string;
        started_at: number;
        status: SessionStatus;
        status_at: number;
        stopped_ttl_ms: number | null;
        ttl_ms: number;
    }[]>;
    changedSince(instanceId: string, since: number): Promise<SessionRow[]>;
    countByStatus(instanceId: string): Promise<Array<{
        status: SessionStatus;
        count: number;
    }>>;
    usage(projectId: string): Promise<Usage>;
    insert(row: SessionRow, options?: Checks & {
        idempotency?: IdempotencyRow;
    }): Promise<InsertResult>;
    insertAll(rows: readonly SessionRow[], { check, volumes }?: Checks): Promise<Set<string>>;
    reserveStart(session: SessionRow, { check, volumes }: Checks): Promise<void>;
    forgetStarts(where: {
        id: string;
    } | {
        instance_id: string;
    }): Promise<void>;
    update(id: string, from: readonly SessionStatus[] | undefined, changes: Partial<SessionRow>): Promise<SessionRow | undefined>;
    forget(id: string): Promise<void>;
    forgetIdempotency(sessionId: string): Promise<void>;
    prune(instanceId: string, endedBefore: number): Promise<number>;
    pruneBeyond(keep: number): Promise<number>;
}

declare class Share {
    used: number;
    delayMs(bytes: number): number;
    open(): void;
    close(): void;
    get isActive(): boolean;
}

export interface ShellRequest {
    kind: 'exec';
    command: string;
    shell: string;
    timeoutMs: number;
    maxOutputBytes?: number;
}

export interface SnapshotRow {
    id: string;
    project_id: string;
    instance_id: string;
    session_id: string;
    name: string | null;
    provider_id: string;
    image: string;
    size_bytes: number | null;
    created_at: number;
    settings: string | null;
}

export declare class Snapshots {
    constructor(db: Kysely<Tables>);
    get(projectId: string, id: string): Promise<SnapshotRow | undefined>;
    list(projectId: string, options: {
        sessionId?: string;
        limit: number;
        after?: {
            createdAt: number;
            id: string;
        };
    }): Promise<SnapshotRow[]>;
    providerIds(instanceId: string): Promise<string[]>;
    usage(projectId: string): Promise<{
        snapshots: number;
        bytes: number;
    }>;
    insert(row: SnapshotRow): Promise<void>;
    delete(projectId: string, id: string): Promise<boolean>;
}

export declare class SnapshotsOfSessions {
    constructor(context: Context, use: Use, creator: Creator);
    create(caller: Caller, id: string, { name, signal, ...meant }: Meant & {
        name?: string;
        signal?: AbortSignal;
    }): Promise<SnapshotRow>;
    find(caller: Caller, id: string): Promise<SnapshotRow | undefined>;
    get(caller: Caller, id: string): Promise<SnapshotRow>;
    list(caller: Caller, options: {
        sessionId?: string;
        limit: number;
        after?: {
            createdAt: number;
            id: string;
        };
    }): Promise<SnapshotRow[]>;
    delete(caller: Caller, id: string): Promise<boolean>;
    fork(caller: Caller, id: string, options: Meant & {
        count: number;
        names?: readonly string[];
        signal?: AbortSignal;
    }): Promise<Array<Session | Error>>;
}

export declare class Store {
    readonly kind: DatabaseKind;
    readonly db: Kysely<Tables>;
    readonly keys: Keys;
    readonly sessions: Sessions;
    readonly execs: Execs;
    readonly snapshots: Snapshots;
    readonly volumes: Volumes;
    readonly secrets: SecretRows;
    readonly sealed: SealedValues;
    readonly ports: Ports;
    readonly fronts: Fronts;
    readonly records: Records;
    static open(options: StoreOptions): Promise<Store>;
    static connect(options: StoreOptions): Promise<Store>;
    giveBack(): Promise<void>;
    putBy(): void;
    size(): Promise<number>;
    ping(): Promise<void>;
    close(): Promise<void>;
}

export declare class StoreBudget {
    constructor(context: Context);
    added(projectId: string, bytes: number): void;
    enforce(): Promise<void>;
}

export interface StoreOptions {
    readonly db_url?: string;
    readonly db_path: string;
}

export interface StoredCommand extends CommandBase {
    readonly state: 'stored';
}

export interface Tables {
    projects: ProjectRow;
    keys: KeyRow;
    sessions: SessionRow;
    execs: ExecRow;
    snapshots: SnapshotRow;
    volumes: VolumeRow;
    secrets: SecretRow;
    daemon_facts: FactRow;
    ports: PortRow;
    front_records: FrontRow;
    events: EventRow;
    audit: AuditRow;
    idempotency: IdempotencyRow;
}

type Taken = () => Promise<Used & {
    release: () => void;
}>;

export declare class Terminals {
    constructor(context: Context, use: Use);
    open(caller: Caller, id: string, options: Omit<OpenTerminalOptions, 'signal' | 'env'> & {
        env?: Readonly<Record<string, string>>;
    }, use?: UseOptions): Promise<ExecRow>;
    find(caller: Caller, id: string, terminalId: string): Promise<ExecRow>;
    list(caller: Caller, id: string): Promise<Array<Omit<ExecRow, 'events'>>>;
    attach<T>(caller: Caller, id: string, terminalId: string, work: (terminal: SandboxTerminal) => Promise<T>, use?: UseOptions): Promise<T>;
    ended(id: string, terminalId: string, exit: object): Promise<void>;
    touch(id: string): void;
}

export interface Usage {
    sessions: number;
    cpu: number;
    mem_mb: number;
    disk_mb: number;
    unlimited_disks: number;
}

export declare class Use {
    constructor(context: Context, lifecycle: Lifecycle);
    find(caller: Caller, id: string): Promise<Session>;
    findHere(caller: Caller, id: string): Promise<Session>;
    use<T>(caller: Caller, id: string, work: (used: Used) => Promise<T>, options?: UseOptions): Promise<T>;
    take(caller: Caller, id: string, options?: UseOptions): Promise<Used & {
        release: () => void;
    }>;
}

export interface UseOptions extends Meant {
    wake?: boolean;
}

export interface Used {
    readonly session: Session;
    readonly sandbox: Sandbox;
    readonly open: Open;
}

export interface Volume {
    readonly row: VolumeRow;
    readonly sizeBytes?: number;
    readonly writer?: string;
}

export interface VolumeRequest {
    readonly name: string;
    readonly path: string;
    readonly readOnly?: boolean;
}

export interface VolumeRow {
    id: string;
    project_id: string;
    instance_id: string;
    name: string;
    state: VolumeState;
    provider_name: string;
    limit_mb: number | null;
    created_at: number;
}

export type VolumeState = 'creating' | 'ready' | 'deleting' | 'lost';

export interface VolumeUsage {
    volumes: number;
    limit_mb: number;
}

export declare class Volumes {
    constructor(db: Kysely<Tables>);
    get(projectId: string, name: string): Promise<VolumeRow | undefined>;
    list(projectId: string, { limit, after }: {
        limit: number;
        after?: {
            createdAt: number;
            id: string;
        };
    }): Promise<VolumeRow[]>;
    ofInstance(instanceId: string, states?: readonly VolumeState[]): Promise<VolumeRow[]>;
    unlimited(projectId: string): Promise<VolumeRow[]>;
    usage(projectId: string): Promise<VolumeUsage>;
    insert(row: VolumeRow, check: (usage: VolumeUsage) => void): Promise<'created' | 'name-taken'>;
    beginDelete(projectId: string, name: string, check: (sessionIds: readonly string[]) => void): Promise<VolumeRow | undefined>;
    setState(id: string, from: readonly VolumeState[], state: VolumeState): Promise<boolean>;
    delete(id: string): Promise<void>;
    writers(projectId: string): Promise<ReadonlyMap<string, string>>;
}

export interface VolumesInUse {
    readonly ready: ReadonlySet<string>;
    readonly writers: ReadonlyMap<string, string>;
}

export declare class VolumesOfProjects {
    constructor(context: Context);
    create(caller: Caller, { name, limitMb }: {
        name: string;
        limitMb?: number;
    }): Promise<Volume>;
    get(caller: Caller, name: string): Promise<Volume>;
    list(caller: Caller, options: {
        limit: number;
        after?: {
            createdAt: number;
            id: string;
        };
    }): Promise<Volume[]>;
    delete(caller: Caller, name: string): Promise<void>;
    finishChanges(): Promise<void>;
    tidy(): Promise<void>;
}

export declare function configOf(given: Readonly<Record<string, unknown>>): DaemonConfig;

export declare const endAction: z.ZodEnum<{
    destroy: "destroy";
    pause: "pause";
    "snapshot-and-stop": "snapshot-and-stop";
    stop: "stop";
}>;

export declare function engineOptions(config: DaemonConfig): EngineProviderOptions;

export declare const fileSchema: z.ZodObject<{
    listen: z.ZodDefault<z.ZodString>;
    behind_tls: z.ZodDefault<z.ZodBoolean>;
    api_key: z.ZodOptional<z.ZodString>;
    jwt: z.ZodOptional<z.ZodObject<{
        secret: z.ZodOptional<z.ZodString>;
        secret_file: z.ZodOptional<z.ZodString>;
        jwks_file: z.ZodOptional<z.ZodString>;
        jwks_url: z.ZodOptional<z.ZodString>;
        algorithms: z.ZodDefault<z.ZodArray<z.ZodEnum<{
            ES256: "ES256";
            ES384: "ES384";
            ES512: "ES512";
            EdDSA: "EdDSA";
            PS256: "PS256";
            PS384: "PS384";
            PS512: "PS512";
            RS256: "RS256";
            RS384: "RS384";
            RS512: "RS512";
        }>>>;
        issuer: z.ZodOptional<z.ZodString>;
        audience: z.ZodOptional<z.ZodString>;
        clock_tolerance_seconds: z.ZodDefault<z.ZodInt>;
        max_age_seconds: z.ZodDefault<z.ZodInt>;
        project_claim: z.ZodDefault<z.ZodString>;
        subject_claim: z.ZodDefault<z.ZodString>;
        scopes_claim: z.ZodDefault<z.ZodString>;
        default_scope: z.ZodOptional<z.ZodEnum<{
            exec: "exec";
            read: "read";
        }>>;
        create_projects: z.ZodDefault<z.ZodBoolean>;
        allow_operator: z.ZodDefault<z.ZodBoolean>;
        jwks_refresh_seconds: z.ZodDefault<z.ZodInt>;
        jwks_cooldown_seconds: z.ZodDefault<z.ZodInt>;
        jwks_max_stale_seconds: z.ZodDefault<z.ZodInt>;
    }, z.core.$strict>>;
    data_dir: z.ZodOptional<z.ZodString>;
    engine_dir: z.ZodOptional<z.ZodString>;
    run_dir: z.ZodOptional<z.ZodString>;
    db_path: z.ZodOptional<z.ZodString>;
    db_url: z.ZodOptional<z.ZodString>;
    isolator: z.ZodDefault<z.ZodEnum<{
        auto: "auto";
        docker: "docker";
        oci: "oci";
        process: "process";
    }>>;
    runtime: z.ZodOptional<z.ZodString>;
    docker: z.ZodPrefault<z.ZodObject<{
        host: z.ZodOptional<z.ZodString>;
        network: z.ZodOptional<z.ZodString>;
        userns: z.ZodOptional<z.ZodString>;
    }, z.core.$strict>>;
    accept_no_isolation: z.ZodDefault<z.ZodBoolean>;
    default_image: z.ZodDefault<z.ZodString>;
    allowed_images: z.ZodOptional<z.ZodArray<z.ZodString>>;
    images: z.ZodDefault<z.ZodRecord<z.ZodString, z.ZodString>>;
    pull_images: z.ZodDefault<z.ZodBoolean>;
    session_ttl_seconds: z.ZodDefault<z.ZodInt>;
    on_idle: z.ZodDefault<z.ZodEnum<{
        destroy: "destroy";
        pause: "pause";
        "snapshot-and-stop": "snapshot-and-stop";
        stop: "stop";
    }>>;
    lifetime_seconds: z.ZodOptional<z.ZodInt>;
    on_lifetime: z.ZodDefault<z.ZodEnum<{
        destroy: "destroy";
        pause: "pause";
        "snapshot-and-stop": "snapshot-and-stop";
        stop: "stop";
    }>>;
    max_ttl_seconds: z.ZodDefault<z.ZodInt>;
    wake_on_use: z.ZodDefault<z.ZodBoolean>;
    keep_ended_seconds: z.ZodDefault<z.ZodInt>;
    keep_ended_sessions: z.ZodDefault<z.ZodInt>;
    keep_project_results_mb: z.ZodDefault<z.ZodInt>;
    keep_results_mb: z.ZodDefault<z.ZodInt>;
    keep_events_mb: z.ZodDefault<z.ZodInt>;
    keep_audit_mb: z.ZodDefault<z.ZodInt>;
    defaults: z.ZodPrefault<z.ZodObject<{
        cpu_limit: z.ZodDefault<z.ZodNumber>;
        memory_mb: z.ZodDefault<z.ZodInt>;
        pids_limit: z.ZodDefault<z.ZodInt>;
        tmp: z.ZodDefault<z.ZodEnum<{
            disk: "disk";
            memory: "memory";
        }>>;
        tmp_limit_mb: z.ZodDefault<z.ZodInt>;
        disk_limit_mb: z.ZodOptional<z.ZodInt>;
        volume_limit_mb: z.ZodOptional<z.ZodInt>;
        exec_timeout_ms: z.ZodDefault<z.ZodInt>;
        max_exec_timeout_ms: z.ZodDefault<z.ZodInt>;
        network_mode: z.ZodDefault<z.ZodEnum<{
            none: "none";
            open: "open";
        }>>;
        login_shell: z.ZodDefault<z.ZodBoolean>;
        readonly_rootfs: z.ZodDefault<z.ZodLiteral<true>>;
    }, z.core.$strict>>;
    max: z.ZodPrefault<z.ZodObject<{
        cpu_limit: z.ZodDefault<z.ZodNumber>;
        memory_mb: z.ZodDefault<z.ZodInt>;
        pids_limit: z.ZodDefault<z.ZodInt>;
        disk_limit_mb: z.ZodDefault<z.ZodInt>;
        volume_limit_mb: z.ZodDefault<z.ZodInt>;
    }, z.core.$strict>>;
    allow_root: z.ZodDefault<z.ZodBoolean>;
    allowed_networks: z.ZodDefault<z.ZodArray<z.ZodEnum<{
        none: "none";
        open: "open";
        policy: "policy";
    }>>>;
    egress: z.ZodPrefault<z.ZodObject<{
        services: z.ZodDefault<z.ZodRecord<z.ZodString, z.ZodObject<{
            host: z.ZodString;
            port: z.ZodInt;
        }, z.core.$strict>>>;
        addresses: z.ZodDefault<z.ZodArray<z.ZodString>>;
        max: z.ZodPrefault<z.ZodObject<{
            connections: z.ZodDefault<z.ZodInt>;
            bytes: z.ZodOptional<z.ZodInt>;
            bytes_per_second: z.ZodOptional<z.ZodInt>;
        }, z.core.$strict>>;
    }, z.core.$strict>>;
    host_image: z.ZodPrefault<z.ZodObject<{
        hide: z.ZodDefault<z.ZodArray<z.ZodString>>;
        show: z.ZodDefault<z.ZodArray<z.ZodString>>;
    }, z.core.$strict>>;
    io_limit: z.ZodPrefault<z.ZodObject<{
        read_mb_s: z.ZodOptional<z.ZodInt>;
        write_mb_s: z.ZodOptional<z.ZodInt>;
    }, z.core.$strict>>;
    open_network: z.ZodPrefault<z.ZodObject<{
        allow: z.ZodDefault<z.ZodArray<z.ZodString>>;
    }, z.core.$strict>>;
    pool: z.ZodDefault<z.ZodArray<z.ZodObject<{
        size: z.ZodInt;
        image: z.ZodOptional<z.ZodString>;
        cpu_limit: z.ZodOptional<z.ZodNumber>;
        memory_mb: z.ZodOptional<z.ZodInt>;
        pids_limit: z.ZodOptional<z.ZodInt>;
        disk_limit_mb: z.ZodOptional<z.ZodInt>;
        network_mode: z.ZodOptional<z.ZodEnum<{
            none: "none";
            open: "open";
        }>>;
        account: z.ZodOptional<z.ZodLiteral<"user">>;
    }, z.core.$strict>>>;
    pool_min_available_mb: z.ZodDefault<z.ZodInt>;
    quotas: z.ZodPrefault<z.ZodObject<{
        sessions: z.ZodOptional<z.ZodInt>;
        cpu: z.ZodOptional<z.ZodNumber>;
        mem_mb: z.ZodOptional<z.ZodInt>;
        disk_mb: z.ZodOptional<z.ZodInt>;
        snapshots: z.ZodOptional<z.ZodInt>;
        snapshot_mb: z.ZodOptional<z.ZodInt>;
        volumes: z.ZodOptional<z.ZodInt>;
        volume_mb: z.ZodOptional<z.ZodInt>;
    }, z.core.$strict>>;
    domain: z.ZodOptional<z.ZodString>;
    preview_listen: z.ZodOptional<z.ZodString>;
    preview_url: z.ZodOptional<z.ZodString>;
    fronts: z.ZodPrefault<z.ZodObject<{
        e2b: z.ZodOptional<z.ZodObject<{
            listen: z.ZodString;
            url: z.ZodOptional<z.ZodString>;
            user: z.ZodOptional<z.ZodLiteral<"root">>;
        }, z.core.$strict>>;
        daytona: z.ZodOptional<z.ZodObject<{
            listen: z.ZodString;
            url: z.ZodOptional<z.ZodString>;
            user: z.ZodOptional<z.ZodLiteral<"root">>;
        }, z.core.$strict>>;
        vercel: z.ZodOptional<z.ZodObject<{
            listen: z.ZodString;
            url: z.ZodOptional<z.ZodString>;
            user: z.ZodOptional<z.ZodLiteral<"root">>;
        }, z.core.$strict>>;
        opensandbox: z.ZodOptional<z.ZodObject<{
            listen: z.ZodString;
            url: z.ZodOptional<z.ZodString>;
            user: z.ZodOptional<z.ZodLiteral<"root">>;
        }, z.core.$strict>>;
    }, z.core.$strict>>;
    reaper_interval_seconds: z.ZodDefault<z.ZodNumber>;
    log_level: z.ZodDefault<z.ZodEnum<{
        debug: "debug";
        error: "error";
        info: "info";
        silent: "silent";
        warn: "warn";
    }>>;
    log_format: z.ZodDefault<z.ZodEnum<{
        auto: "auto";
        json: "json";
        text: "text";
    }>>;
    metrics: z.ZodDefault<z.ZodEnum<{
        key: "key";
        open: "open";
    }>>;
    max_body_mb: z.ZodDefault<z.ZodInt>;
    max_result_mb: z.ZodDefault<z.ZodInt>;
    result_memory_mb: z.ZodDefault<z.ZodInt>;
}, z.core.$strict>;

export declare function loadConfig(options?: LoadOptions): Promise<DaemonConfig>;

export declare function maskedConfig(config: DaemonConfig): Record<string, unknown>;

export declare const policySchema: z.ZodObject<{
    images: z.ZodOptional<z.ZodArray<z.ZodString>>;
    networks: z.ZodOptional<z.ZodArray<z.ZodEnum<{
        none: "none";
        open: "open";
        policy: "policy";
    }>>>;
    hosts: z.ZodOptional<z.ZodArray<z.ZodString>>;
    services: z.ZodOptional<z.ZodArray<z.ZodString>>;
    max: z.ZodOptional<z.ZodObject<{
        cpu: z.ZodOptional<z.ZodNumber>;
        memory_mb: z.ZodOptional<z.ZodInt>;
        pids: z.ZodOptional<z.ZodInt>;
        disk_mb: z.ZodOptional<z.ZodInt>;
    }, z.core.$strict>>;
    max_ttl_seconds: z.ZodOptional<z.ZodNumber>;
    max_lifetime_seconds: z.ZodOptional<z.ZodNumber>;
    pool: z.ZodOptional<z.ZodArray<z.ZodString>>;
}, z.core.$strict>;

declare const quotas: z.ZodObject<{
    sessions: z.ZodOptional<z.ZodInt>;
    cpu: z.ZodOptional<z.ZodNumber>;
    mem_mb: z.ZodOptional<z.ZodInt>;
    disk_mb: z.ZodOptional<z.ZodInt>;
    snapshots: z.ZodOptional<z.ZodInt>;
    snapshot_mb: z.ZodOptional<z.ZodInt>;
    volumes: z.ZodOptional<z.ZodInt>;
    volume_mb: z.ZodOptional<z.ZodInt>;
}, z.core.$strict>;

export declare function readAddress(folder: string): Promise<{
    url?: string;
    key?: string;
}>;

export declare const scopes: readonly ['read', 'exec', 'admin', 'secrets'];

export declare function showConfig(config: DaemonConfig): string;

export declare function startDaemon(options: DaemonOptions): Promise<Daemon>;

export declare const version: string;
