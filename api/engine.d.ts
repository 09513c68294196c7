// @sandkasten/engine
//   * from @sandkasten/runner-client
//   DockerIsolator
//   DockerIsolatorOptions
//   DockerProfile
//   EgressEvent
//   EgressEventsOptions
//   EgressSettings
//   EgressStats
//   EngineCapabilities
//   EngineDecision
//   EngineDefaults
//   EngineOptions
//   EnginePlace
//   EngineProvider
//   EngineProviderOptions
//   FolderMount
//   HIDDEN_IN_HOST
//   HostFacts
//   HostImageOptions
//   HostOverrides
//   ImageConfig
//   ImageLayers
//   ImageProgress
//   ImageRecord
//   ImageStore
//   ImageStoreOptions
//   ImportOptions
//   IoLimit
//   IsolatedSandbox
//   Isolator
//   IsolatorSpec
//   OciIsolator
//   OciIsolatorOptions
//   OpenNetwork
//   ProbeResult
//   RuntimeKind
//   SandboxEnd
//   SandboxStats
//   SecretContext
//   SecretSource
//   VolumeAdmin
//   VolumeInfo
//   VolumeMount
//   daemonsHere
//   decideIsolator
//   dockerProfile
//   engineAt
//   engineCapabilities
//   engineDefaults
//   imageStore
//   locateRunner
//   recipeNames
//   rootBelow
//   runtimeKinds
//   versionOf

// @sandkasten/engine/kind
//   EngineKindOptions
//   engineKind
//   secretsOf

export type Architecture = 'x86_64' | 'aarch64';

export interface BuildOptions {
    readonly mmdebstrap?: string;
}

export interface CgroupLayout {
    readonly v1: Readonly<Record<string, string>>;
    readonly v2?: {
        readonly root: string;
        readonly controllers: readonly string[];
    };
    readonly io?: {
        readonly device: string;
        readonly readBytesPerSecond?: number;
        readonly writeBytesPerSecond?: number;
    };
}

export interface Collected {
    readonly layers: number;
    readonly bytes: number;
    readonly drafts: number;
}

interface Comparison {
    readonly index: number;
    readonly value: number;
    readonly valueTwo: number;
    readonly op: 'SCMP_CMP_MASKED_EQ';
}

export interface DaemonAddress {
    readonly socketPath?: string;
    readonly host?: string;
}

export declare class DockerIsolator implements Isolator {
    readonly name = "docker";
    readonly isolation = "container";
    constructor(options: DockerIsolatorOptions);
    probe(): Promise<ProbeResult>;
    weaker(): Promise<readonly string[]>;
    start(spec: IsolatorSpec): Promise<IsolatedSandbox>;
    attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined>;
    lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined>;
    remove(place: SandboxPlace): Promise<boolean>;
    close(): Promise<void>;
    sweep(below: string): Promise<void>;
    snapshot(place: SandboxPlace, snapshotId: string): Promise<{
        sizeBytes?: number;
    }>;
    hasImage(reference: string): Promise<boolean>;
    programs(): Promise<Array<{
        image: string;
        programs: Programs;
    }>>;
    removeSnapshot(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'>;
}

export interface DockerIsolatorOptions extends DaemonAddress {
    readonly runner: string;
    readonly stateFolder: string;
    readonly runFolder?: string;
    readonly pull?: boolean;
    readonly bridge?: boolean;
    readonly network?: string;
    readonly hostImage?: HostImageOptions;
    readonly openNetwork?: OpenNetwork;
    readonly userns?: string;
    readonly seccompProfile?: string;
    readonly runtime?: string;
    readonly cgroupParent?: string;
    readonly readyTimeoutMs?: number;
}

export interface DockerProfile {
    readonly defaultAction: string;
    readonly defaultErrnoRet: number;
    readonly architectures: readonly string[];
    readonly syscalls: readonly Entry[];
}

export interface EgressEvent {
    readonly seq: number;
    readonly sandbox: string;
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
}

export interface EgressEventsOptions {
    readonly after?: number;
    readonly follow?: boolean;
    readonly signal?: AbortSignal;
}

export interface EgressSettings {
    readonly gateway?: string;
    readonly upstreamCa?: readonly string[];
    readonly host?: HostOverrides;
}

export interface EgressStats {
    readonly connections: number;
    readonly bytesIn: number;
    readonly bytesOut: number;
    readonly refused: number;
}

export interface EngineCapabilities {
    readonly stdin: 'native';
    readonly mergedOutput: 'native';
    readonly reattach: 'native';
    readonly shell: 'native';
    readonly terminal: 'native';
    readonly ports: 'native';
    readonly watch: 'native';
    readonly stop: 'native';
    readonly pause: 'native' | 'emulated';
    readonly snapshot: 'native';
    readonly fork: 'native';
    readonly lifetime: 'native';
    readonly egress: 'native';
}

export interface EngineDecision {
    readonly isolator: 'oci' | 'docker' | 'process';
    readonly reason: string;
}

export interface EngineDefaults {
    readonly image: string;
    readonly memoryMb: number;
    readonly vcpus: number;
    readonly pids: number;
    readonly tmp: 'disk' | 'memory';
    readonly tmpMb: number;
    readonly network: NormalNetwork;
    readonly diskMb?: number;
    readonly login: boolean;
}

export interface EngineKindOptions extends EnginePlace, Omit<EngineProviderOptions, 'isolator' | 'root' | 'prepareNext'> {
    readonly onBuild?: () => void;
}

export interface EngineOptions {
    mounts?: ReadonlyArray<FolderMount>;
    volumes?: ReadonlyArray<VolumeMount>;
    pids?: number;
    tmp?: 'disk' | 'memory';
    tmpMb?: number;
    account?: string;
}

export interface EnginePlace {
    readonly folder?: string;
    readonly runFolder?: string;
}

export declare class EngineProvider extends DriverProvider<EngineCapabilities> implements AsyncDisposable {
    readonly decision: EngineDecision;
    readonly volumes: VolumeAdmin;
    readonly dial: ((sandboxId: string, port: number) => Promise<Duplex>) | undefined;
    constructor(options?: EngineProviderOptions);
    probe(): Promise<ProbeResult>;
    get limitsDisks(): boolean;
    stats(sandboxId: string): Promise<SandboxStats>;
    onEnded(listener: (info: SandboxInfo) => void): void;
    watch(sandboxId: string): Promise<void>;
    handOver(sandboxId: string, to: {
        labels: Readonly<Record<string, string>>;
        envVars: Readonly<Record<string, string>>;
    }): Promise<void>;
    imageForRuntime(runtime: string, among?: readonly string[]): Promise<string>;
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
    sweep(): Promise<string[]>;
    egressEvents(sandboxId: string, options?: EgressEventsOptions): AsyncGenerator<EgressEvent>;
    egressStats(sandboxId: string): Promise<EgressStats>;
    refreshSecrets(): Promise<void>;
    idle(): Promise<void>;
}

export interface EngineProviderOptions {
    isolator?: 'auto' | 'oci' | 'docker' | 'process';
    pull?: boolean;
    root?: string;
    defaults?: Partial<EngineDefaults>;
    runtimes?: Readonly<Record<string, string>>;
    openNetwork?: OpenNetwork;
    secrets?: SecretSource;
    egress?: EgressSettings;
    hostImage?: HostImageOptions;
    oci?: Partial<OciIsolatorOptions>;
    docker?: Partial<DockerIsolatorOptions>;
    prepareNext?: boolean;
    onWarning?: (message: string) => void;
    acceptNoIsolation?: boolean;
}

interface Entry {
    readonly names: readonly string[];
    readonly action: 'SCMP_ACT_ALLOW' | 'SCMP_ACT_ERRNO';
    readonly errnoRet?: number;
    readonly args?: readonly Comparison[];
}

export interface FolderMount {
    readonly source: string;
    readonly target: string;
    readonly readOnly?: boolean;
}

export interface GatewaySocket {
    readonly socket: string;
    readonly owner?: {
        readonly uid: number;
        readonly gid: number;
    };
}

export declare const HIDDEN_IN_HOST: readonly string[];

export interface HostFacts {
    readonly resolvers: readonly string[];
    readonly own: readonly string[];
    readonly hosts: Readonly<Record<string, readonly string[]>>;
}

export interface HostImageOptions {
    readonly hide?: readonly string[];
    readonly show?: readonly string[];
}

export interface HostMount {
    readonly source: string;
    readonly target: string;
    readonly readOnly?: boolean;
    readonly asOwner?: boolean;
    readonly ofSandboxes?: boolean;
    readonly exact?: boolean;
    readonly fileSystem?: boolean;
}

export type HostOverrides = Partial<HostFacts>;

export interface IdRangeOptions {
    readonly folder: string;
    readonly first: number;
    readonly last: number;
}

export type Image = 'host' | {
    readonly rootfs: string;
} | StoredImage | {
    readonly reference: string;
} | {
    readonly snapshot: string;
    readonly of: Image;
};

export interface ImageConfig {
    readonly env: Readonly<Record<string, string>>;
    readonly workdir: string;
    readonly user: {
        readonly uid: number;
        readonly gid: number;
    };
}

export interface ImageLayers {
    readonly name: string;
    readonly digest: string;
    readonly layers: readonly string[];
    readonly config: ImageConfig;
}

export type ImageProgress = {
    readonly phase: 'fetch';
    readonly done: number;
    readonly total: number;
} | {
    readonly phase: 'unpack';
    readonly layer: number;
    readonly layers: number;
    readonly bytes: number;
} | {
    readonly phase: 'build';
    readonly step: string;
};

export interface ImageRecord {
    readonly version: 1;
    readonly name: string;
    readonly digest: string;
    readonly pinned?: string;
    readonly source: string;
    readonly created?: string;
    readonly addedAt: number;
    readonly size: number;
    readonly layers: readonly string[];
    readonly config: ImageConfig;
}

export interface ImageRights {
    asSandboxes(runner: string, program: string, ...args: string[]): readonly [string, ...string[]];
    asOurselves(runner: string, program: string, ...args: string[]): readonly [string, ...string[]];
}

export declare class ImageStore {
    constructor(options: ImageStoreOptions);
    list(): ImageRecord[];
    find(text: string): ImageRecord | undefined;
    imageLayers(text: string): ImageLayers;
    programs(): Array<{
        image: string;
        programs: Programs;
    }>;
    import(text: string, options?: ImportOptions): Promise<ImageRecord>;
    pull(text: string, options?: RegistryOptions): Promise<ImageRecord & {
        readonly changed: boolean;
    }>;
    build(recipe: string, options?: ImportOptions & BuildOptions): Promise<ImageRecord>;
    remove(text: string): Promise<Collected & {
        readonly kept: boolean;
    }>;
    prune({ unused }?: {
        unused?: boolean | undefined;
    }): Promise<Collected & {
        readonly images: readonly string[];
    }>;
}

export interface ImageStoreOptions {
    readonly root: string;
    readonly imagesFolder?: string;
    readonly runner: () => Promise<string>;
    readonly rights?: ImageRights | undefined;
    readonly limits?: Partial<UnpackLimits>;
    readonly volatile?: boolean;
}

export interface ImportOptions {
    readonly name?: string;
    readonly signal?: AbortSignal;
    readonly onProgress?: (progress: ImageProgress) => void;
}

export interface InsideIds {
    readonly first: number;
    readonly count: number;
    readonly uid: number;
    readonly capabilities: readonly string[];
    readonly capabilityBits: number;
    readonly terminalGroup?: number;
}

export interface IoLimit {
    readonly readBytesPerSecond?: number;
    readonly writeBytesPerSecond?: number;
}

export interface IsolatedSandbox extends SandboxPlace {
    connect(): Promise<Duplex>;
    readonly ended: Promise<SandboxEnd>;
    stats(): Promise<SandboxStats>;
    oomKills(): Promise<number | undefined>;
    freeze(): Promise<void>;
    thaw(): Promise<void>;
    hold(): Promise<() => void>;
    readonly upper?: string;
    kill(): Promise<SandboxEnd>;
}

export interface Isolator {
    readonly name: string;
    readonly isolation: Isolation;
    readonly runFolders?: readonly string[];
    probe(): Promise<ProbeResult>;
    start(spec: IsolatorSpec): Promise<IsolatedSandbox>;
    attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined>;
    lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined>;
    remove(place: SandboxPlace): Promise<boolean>;
    close(): Promise<void>;
    sweep?(below: string): Promise<void>;
    readonly disks?: LayeredDisks;
    weaker?(): Promise<readonly string[]>;
    hasImage?(reference: string): Promise<boolean>;
    programs?(): Promise<Array<{
        image: string;
        programs: Programs;
    }>>;
    snapshot?(place: SandboxPlace, snapshotId: string): Promise<{
        sizeBytes?: number;
    }>;
    removeSnapshot?(snapshotId: string): Promise<'removed' | 'absent' | 'in-use'>;
}

export interface IsolatorSpec extends SandboxPlace {
    readonly image: Image;
    readonly layers?: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly limits: Limits;
    readonly mounts: readonly HostMount[];
    readonly readOnlyFiles?: string;
    readonly network: SandboxNetwork;
    readonly authority?: string | undefined;
    readonly workdir: string;
    readonly hostname: string;
    readonly user?: 'root';
    readonly account?: string;
}

export interface LayeredDisks {
    upperOf(spec: IsolatorSpec): Upper;
    lowerFoldersOf(spec: IsolatorSpec): Promise<readonly string[]>;
}

export interface Limits {
    readonly memoryBytes: number;
    readonly pids: number;
    readonly cpus: number;
    readonly tmpBytes?: number;
    readonly shmBytes: number;
    readonly openFiles: number;
    readonly diskBytes?: number;
}

export declare class OciIsolator implements Isolator {
    readonly name = "oci";
    readonly isolation: Isolation;
    readonly privileges: Privileges;
    readonly runFolders: readonly string[];
    constructor(options: OciIsolatorOptions);
    weaker(): Promise<readonly string[]>;
    readonly disks: LayeredDisks;
    probe(): Promise<ProbeResult>;
    start(spec: IsolatorSpec): Promise<IsolatedSandbox>;
    attach(place: SandboxPlace): Promise<IsolatedSandbox | undefined>;
    lastEnd(place: SandboxPlace): Promise<SandboxEnd | undefined>;
    remove(place: SandboxPlace): Promise<boolean>;
    close(): Promise<void>;
    sweep(below: string): Promise<void>;
}

export interface OciIsolatorOptions {
    readonly runner: string;
    readonly runtime?: string;
    readonly runtimeKind?: RuntimeKind;
    readonly pasta?: string;
    readonly ioLimit?: IoLimit;
    readonly hostImage?: HostImageOptions;
    readonly openNetwork?: OpenNetwork;
    readonly runFolder?: string;
    readonly imagesFolder?: string;
    readonly ids?: Partial<IdRangeOptions>;
    readonly cgroupParent?: string;
    readonly volatile?: boolean;
    readonly prepareNext?: boolean | undefined;
    readonly readyTimeoutMs?: number;
}

export interface OpenNetwork {
    readonly allow?: readonly string[];
}

export interface Places {
    readonly folder: string;
    readonly range: string;
    readonly disk: string;
    readonly limitedDisk: string;
    readonly upper: string;
    readonly work: string;
    readonly state: string;
    readonly end: string;
    readonly run: string;
    readonly witness: string;
    readonly socket: string;
}

export interface Privileges {
    readonly kind: 'root' | 'range' | 'own';
    readonly inside: InsideIds;
    command(runner: string, program: string, ...args: string[]): readonly [string, ...string[]];
    takeIds(places: Places): number;
    freeIds(first: number, places: Places): void;
    sweepIds(isGone: (folder: string) => boolean): void;
    prepareDisk(places: Places, spec: IsolatorSpec): void;
    skeleton(spec: IsolatorSpec): SkeletonEntry[];
    layout(): CgroupLayout;
    prepareGroups(layout: CgroupLayout, parent: string): void;
    weaker(layout: CgroupLayout): string[];
    readonly folders: {
        readonly run: string;
        readonly stage: string;
        readonly data: string;
    };
}

export type ProbeResult = {
    readonly ok: true;
    readonly detail: string;
    readonly weaker?: readonly string[];
    readonly better?: readonly string[];
} | {
    readonly ok: false;
    readonly reason: string;
    readonly fix: string;
};

export interface PullOptions {
    readonly authfile?: string;
    readonly skopeo?: string;
    readonly signal?: AbortSignal;
    readonly onProgress?: (done: number, total: number) => void;
}

export type RegistryOptions = Omit<ImportOptions, 'name'> & Pick<PullOptions, 'authfile' | 'skopeo'>;

export type RuntimeKind = 'crun' | 'runc' | 'runsc';

export interface SandboxEnd {
    readonly exitCode?: number;
    readonly signal?: number;
    readonly killed: boolean;
    readonly oom?: boolean;
    readonly oomKills?: number;
    readonly startedAt?: Date;
    readonly endedAt?: Date;
    readonly unwitnessed: boolean;
    readonly errors: string;
}

export type SandboxNetwork = 'none' | 'open' | {
    readonly policy: GatewaySocket;
};

export interface SandboxPlace {
    readonly sandboxId: string;
    readonly folder: string;
}

export interface SandboxStats {
    readonly memoryBytes?: number;
    readonly memoryLimitBytes?: number;
    readonly pids?: number;
    readonly cpuUsec?: number;
    readonly throttledUsec?: number;
    readonly oomKills?: number;
    readonly pidsRefused?: number;
}

export interface SecretContext {
    readonly sandboxId: string;
    readonly labels: Readonly<Record<string, string>>;
}

export type SecretSource = Readonly<Record<string, string>> | ((name: string, context: SecretContext) => string | undefined | Promise<string | undefined>);

export interface SkeletonEntry {
    readonly path: string;
    readonly text: string | null;
    readonly source?: string;
    readonly data?: Buffer;
    readonly owner: number;
    readonly mode?: number;
}

export interface StoredImage {
    readonly name: string;
    readonly digest: string;
    readonly layers: readonly string[];
    readonly env: Readonly<Record<string, string>>;
    readonly user: {
        readonly uid: number;
        readonly gid: number;
    };
}

export interface UnpackLimits {
    readonly maxEntries: number;
    readonly maxBytes: number;
}

export type Upper = {
    readonly folder: string;
} | {
    readonly file: string;
};

export declare function daemonsHere(): string[];

export declare function decideIsolator(options: EngineProviderOptions): EngineDecision;

export declare function dockerProfile(architecture: Architecture): DockerProfile;

export declare function engineAt({ folder, runFolder }: EnginePlace, options?: EngineProviderOptions): EngineProvider;

export declare const engineCapabilities: EngineCapabilities;

export declare const engineDefaults: EngineDefaults;

export declare function engineKind({ folder, runFolder, onBuild, ...options }?: EngineKindOptions): ProviderKind;

export declare function imageStore(options?: Pick<EngineProviderOptions, 'root' | 'oci'>): ImageStore;

export declare function locateRunner(options?: {
    onBuild?: () => void;
}): Promise<string>;

export declare function recipeNames(): string[];

export declare function rootBelow(folder: string, options: Omit<EngineProviderOptions, 'root'>): string;

export declare const runtimeKinds: readonly RuntimeKind[];

export declare function secretsOf({ secrets: stored }: ProviderContext, others: SecretSource | undefined): SecretSource | undefined;

export declare function versionOf(program: string): Promise<string>;
