// @sandkasten/cloudflare
//   CallSite
//   CloudflareSyncError
//   DiscoverOptions
//   Discovery
//   Edit
//   InstanceType
//   Json
//   JsonObject
//   ManagedRecord
//   MigrateOptions
//   MigrateResult
//   Path
//   Place
//   Plan
//   PlanInput
//   PlannedSandbox
//   Probe
//   ProbeOptions
//   ProbeTarget
//   Problem
//   SandboxSource
//   Severity
//   Statics
//   SyncOptions
//   SyncResult
//   TypesOptions
//   TypesResult
//   applyEdits
//   assertHealthy
//   check
//   discover
//   emptyRecord
//   formatProblem
//   formatRecord
//   generateTypes
//   migrate
//   parseRecord
//   plan
//   probeSandbox
//   renderTypes
//   sync
//   unifiedDiff

// @sandkasten/cloudflare/vite
//   SandkastenPluginOptions
//   default
//   sandkastenCloudflare

// @sandkasten/cloudflare/cli
//   CliIo
//   run

// @sandkasten/cloudflare/healthcheck
//   Probe
//   ProbeOptions
//   ProbeTarget
//   assertHealthy
//   probeSandbox

// @sandkasten/cloudflare/preview
//   PreviewRoutes
//   proxyToSandboxes
//   sandboxKey

export interface CallSite {
    kind: 'env' | 'proxy' | 'export' | 'type';
    place: Place;
    found: string;
    instead: string;
}

export interface CliIo {
    cwd: string;
    stdout(text: string): void;
    stderr(text: string): void;
}

export declare class CloudflareSyncError extends Error {
    readonly problems: Problem[];
    constructor(problems: Problem[]);
}

export type ContainerField = 'name' | 'image' | 'instance_type' | 'max_instances';

export interface DiscoverOptions {
    root: string;
    dir?: string;
    configDir?: string;
}

export interface Discovery {
    sandboxes: SandboxSource[];
    problems: Problem[];
}

export type Edit = {
    op: 'set';
    path: Path;
    value: Json;
    why: string;
} | {
    op: 'append';
    path: Path;
    values: Json[];
    layout: 'block' | 'inline';
    why: string;
} | {
    op: 'remove';
    path: Path;
    why: string;
} | {
    op: 'prune';
    path: Path;
    why: string;
};

export type EnvSelection = 'all' | string[] | undefined;

export type InstanceType = string | {
    [limit: string]: number;
};

export type Json = string | number | boolean | null | Json[] | {
    [key: string]: Json;
};

export type JsonObject = {
    [key: string]: Json;
};

export interface Located<T> {
    value: T;
    place: Place;
    path: string;
}

export interface ManagedRecord {
    version: 1;
    envs: string[];
    sandboxes: {
        [file: string]: RecordedSandbox;
    };
    created: string[];
    retired: string[];
}

export interface MigrateOptions extends SyncOptions {
    name?: string;
    keepAlias?: boolean;
    dryRun?: boolean;
}

export interface MigrateResult extends SyncResult {
    steps: string[];
    callSites: CallSite[];
    source: {
        file: string;
        text: string;
    } | undefined;
}

export type Path = (string | number)[];

export interface Place {
    file: string;
    line?: number;
    column?: number;
}

export interface Plan {
    sandboxes: PlannedSandbox[];
    edits: Edit[];
    record: ManagedRecord;
    problems: Problem[];
}

export interface PlanInput {
    sources: SandboxSource[];
    config: JsonObject;
    record: ManagedRecord;
    configDir: string;
    where: Where;
    today: string;
    envs?: EnvSelection;
    adopt?: boolean;
    deleteClasses?: string[];
    renames?: Rename[];
}

export interface PlannedSandbox {
    key: string;
    file: string;
    specifier: string;
    place: Place;
    className: string;
    binding: string;
    container: string;
    image: string;
    instanceType: InstanceType;
    maxInstances: number | undefined;
    previous: RecordedSandbox | undefined;
}

export type PreviewRoutes = {
    [prefix: string]: unknown;
};

export interface Probe {
    status: 'healthy' | 'asleep' | 'unhealthy' | 'timeout';
    state: string | undefined;
    exitCode: number | undefined;
    durationMs: number;
    error: unknown;
}

export interface ProbeOptions {
    timeoutMs?: number;
    wake?: boolean;
}

export interface ProbeTarget {
    exec(command: string, options?: {
        timeout?: number;
    }): Promise<{
        exitCode: number;
    }>;
    getState(): Promise<{
        status: string;
    }>;
}

export interface Problem {
    severity: Severity;
    code: string;
    message: string;
    place?: Place;
    fix?: string;
}

type ProxyToSandbox = (request: Request, env: never) => Promise<Response | null>;

export interface RecordedSandbox {
    class: string;
    binding: string;
    container: string;
    fields: ContainerField[];
    envs?: string[];
}

export interface Rename {
    from: string;
    to: string;
}

export interface SandboxSource {
    path: string;
    file: string;
    baseName: string;
    className: string;
    place: Place;
    statics: Statics;
    imageFiles: string[];
    siblingDockerfile?: string;
    sdkVersion?: string;
    readFrom: string[];
}

export interface SandkastenPluginOptions extends Omit<SyncOptions, 'deleteClasses' | 'renames' | 'callSites'> {
    check?: boolean;
    types?: boolean | string;
}

export type Severity = 'error' | 'warning' | 'note';

export interface Statics {
    image?: Located<string>;
    instanceType?: Located<InstanceType>;
    maxInstances?: Located<number>;
    containerName?: Located<string>;
}

export interface SyncOptions {
    root?: string;
    dir?: string;
    config?: string;
    envs?: EnvSelection;
    adopt?: boolean;
    deleteClasses?: string[];
    renames?: Rename[];
    callSites?: boolean;
    today?: string;
}

export interface SyncResult {
    configFile: string | undefined;
    sandboxes: PlannedSandbox[];
    edits: Edit[];
    changed: boolean;
    written: boolean;
    diff: string;
    instructions: string;
    problems: Problem[];
    readFrom: string[];
}

export interface TypesOptions extends SyncOptions {
    out?: string;
    dryRun?: boolean;
}

export interface TypesResult {
    file: string;
    text: string;
    changed: boolean;
    written: boolean;
    diff: string;
    problems: Problem[];
}

export type Where = (path: Path) => Place;

export declare function applyEdits(raw: string, edits: Edit[], file: string): string;

export declare function assertHealthy(sandbox: ProbeTarget, options?: ProbeOptions): Promise<Probe>;

export declare function check(options?: SyncOptions): Promise<SyncResult>;

export declare function discover(options: DiscoverOptions): Discovery;

export declare function emptyRecord(): ManagedRecord;

export declare function formatProblem(problem: Problem): string;

export declare function formatRecord(record: ManagedRecord): string;

export declare function generateTypes(options?: TypesOptions): Promise<TypesResult>;

export declare function migrate(options?: MigrateOptions): Promise<MigrateResult>;

export declare function parseRecord(text: string): ManagedRecord;

export declare function plan(input: PlanInput): Plan;

export declare function probeSandbox(sandbox: ProbeTarget, options?: ProbeOptions): Promise<Probe>;

export declare function proxyToSandboxes(request: Request, routes: PreviewRoutes, proxyToSandbox: ProxyToSandbox): Promise<Response | null>;

export declare function renderTypes(sandboxes: PlannedSandbox[], path: string, configDir: string): string;

export declare function run(argv: string[], io: CliIo): Promise<number>;

export declare function sandboxKey(prefix: string, id: string): string;

export declare function sandkastenCloudflare(options?: SandkastenPluginOptions): Plugin;

export declare function sync(options?: SyncOptions): Promise<SyncResult>;

export declare function unifiedDiff(before: string, after: string, file: string): string;
