// @sandkasten/discord
//   Alive
//   Bot
//   BotOptions
//   CheckedBot
//   FollowOptions
//   Followed
//   Identity
//   Log
//   LogEntry
//   Marker
//   Pace
//   SendPlace
//   SendRequest
//   Sent
//   checkToken
//   createBot
//   follow
//   inviteLink
//   linkOf
//   openPlace
//   permissions
//   send
//   setUpBot
//   systemdUnit

// @sandkasten/discord/testing
//   Bucket
//   Counters
//   DEFAULT_BOT_PERMISSIONS
//   EventFaults
//   EventFilter
//   HeldEvents
//   MessageMatch
//   ModalValues
//   OptionValue
//   PermissionName
//   RequestFault
//   RequestFaults
//   SayOptions
//   Twin
//   TwinBot
//   TwinChannel
//   TwinGuild
//   TwinInteraction
//   TwinLimits
//   TwinMessage
//   TwinOptions
//   TwinUser
//   Upload
//   UserOptions
//   WaitOptions
//   startTwin

export interface Alive {
    read(): Promise<number | undefined>;
    write(time: number): Promise<void>;
}

export interface AttachmentRecord {
    readonly id: string;
    readonly filename: string;
    readonly size: number;
    readonly contentType: string;
    readonly url: string;
    readonly description?: string;
    readonly ephemeral?: boolean;
}

export interface Bot extends AsyncDisposable {
    readonly appId: string;
    readonly threads: Threads;
    start(): Promise<void>;
    close(): Promise<void>;
}

export interface BotOptions {
    readonly token: string;
    readonly registry: Registry;
    readonly kinds: readonly ProviderKind[];
    open(engine: {
        readonly chat: Chat;
        readonly appId: string;
    }): Promise<Threads>;
    readonly alive?: Alive;
    readonly api?: string;
    readonly pace?: Partial<Pace>;
    readonly onLog?: Log;
}

export interface BotRecord {
    readonly id: string;
    readonly name: string;
    readonly token: string;
    privilegedIntents: number;
    readonly commands: Map<string, CommandRecord[]>;
}

export interface Bucket {
    readonly limit: number;
    readonly windowMs: number;
}

export declare const CallbackType: {
    readonly message: 4;
    readonly deferredMessage: 5;
    readonly deferredUpdate: 6;
    readonly update: 7;
    readonly autocomplete: 8;
    readonly modal: 9;
};

export interface ChannelRecord {
    readonly id: string;
    readonly guildId: string;
    readonly type: number;
    name: string;
    topic: string | null;
    readonly position: number;
    parentId: string | null;
    readonly overwrites: Overwrite[];
    rateLimitPerUser: number;
    lastMessageId: string | null;
    readonly messages: Map<string, MessageRecord>;
    readonly thread?: ThreadRecord;
}

export interface CheckedBot extends Identity {
    readonly token: string;
    readonly invite: string;
    readonly commandsChanged: boolean;
}

export interface Clock {
    now(): number;
    advance(ms: number): void;
    schedule(dueAt: number, run: () => void): () => void;
    close(): void;
}

export interface CommandBody {
    readonly name: string;
    readonly type: number;
    readonly description: string;
    readonly options: CommandOption[];
    readonly default_member_permissions: string | null;
    readonly [other: string]: unknown;
}

export interface CommandOption {
    readonly type: number;
    readonly name: string;
    readonly description: string;
    readonly required?: boolean;
    readonly autocomplete?: boolean;
    readonly choices?: {
        name: string;
        value: string | number;
    }[];
    readonly options?: CommandOption[];
    readonly min_value?: number;
    readonly max_value?: number;
    readonly min_length?: number;
    readonly max_length?: number;
}

export interface CommandRecord {
    readonly id: string;
    readonly version: string;
    readonly body: CommandBody;
}

export type Component = {
    readonly type: number;
    readonly id?: number;
    readonly custom_id?: string;
    readonly components?: readonly Component[];
    readonly component?: Component;
    readonly accessory?: Component;
    readonly label?: string;
    readonly style?: number;
    readonly disabled?: boolean;
    readonly url?: string;
    readonly content?: string;
    readonly emoji?: {
        readonly id?: string | null;
        readonly name?: string;
    };
    readonly options?: readonly SelectOption[];
    readonly placeholder?: string;
    readonly min_values?: number;
    readonly max_values?: number;
    readonly min_length?: number;
    readonly max_length?: number;
    readonly required?: boolean;
    readonly value?: string;
    readonly [other: string]: unknown;
};

export interface Core {
    readonly world: World;
    readonly clock: Clock;
    readonly limits: TwinLimits;
    readonly counters: RecordedCounters;
    readonly newId: () => string;
    readonly changes: EventEmitter<{
        change: [channelId?: string];
    }>;
    publish(event: TwinEvent): void;
    readonly origin: string;
}

export interface Counters {
    readonly requests: Record<string, number>;
    readonly rateLimited: Record<string, number>;
    readonly longestRateLimitedRun: number;
    readonly messages: Record<string, number>;
    readonly edits: Record<string, number>;
    readonly repeatedNonces: number;
    readonly gateway: {
        readonly connections: number;
        readonly identifies: number;
        readonly resumes: number;
    };
    reset(): void;
}

export declare const DEFAULT_BOT_PERMISSIONS: readonly PermissionName[];

export type Embed = {
    readonly title?: string;
    readonly description?: string;
    readonly url?: string;
    readonly fields?: readonly {
        readonly name: string;
        readonly value: string;
        readonly inline?: boolean;
    }[];
    readonly footer?: {
        readonly text: string;
    };
    readonly author?: {
        readonly name: string;
    };
    readonly [other: string]: unknown;
};

export interface Emoji {
    readonly id: string | null;
    readonly name: string;
}

export interface EventFaults {
    delay(ms: number, filter?: EventFilter): void;
    duplicate(filter?: EventFilter): void;
    hold(filter?: EventFilter): HeldEvents;
    clear(): void;
}

export interface EventFilter {
    readonly name?: string;
    readonly botId?: string;
    readonly times?: number;
}

export interface FileRecord {
    readonly filename: string;
    readonly contentType: string;
    readonly bytes: Uint8Array;
}

export interface FollowOptions {
    readonly reactWithinMs?: number;
    readonly answerWithinMs?: number;
    readonly everyMs?: number;
    readonly signal?: AbortSignal;
}

export interface Followed {
    readonly end: 'done' | 'failed' | 'aborted';
    readonly text: string;
}

export interface Gateway {
    accept(request: IncomingMessage, socket: Duplex, head: Buffer): void;
    publish(event: TwinEvent): void;
    drop(options?: {
        code?: number;
        botId?: string;
    }): void;
    cut(botId?: string): void;
    invalidateSessions(botId?: string): void;
    requestReconnect(botId?: string): void;
    setZombie(isZombie: boolean): void;
    setAccepting(isAccepting: boolean): void;
    connected(): string[];
    close(): Promise<void>;
}

export interface GuildRecord {
    readonly id: string;
    readonly name: string;
    readonly ownerId: string;
    readonly roles: Map<string, RoleRecord>;
    readonly members: Map<string, MemberRecord>;
    isUnavailable: boolean;
}

export interface HeldEvents {
    readonly count: number;
    release(options?: {
        isReversed?: boolean;
    }): void;
}

export interface Identity {
    readonly appId: string;
    readonly userId: string;
    readonly name: string;
    readonly canReadMessages?: boolean;
}

export interface InteractionRecord {
    readonly id: string;
    readonly token: string;
    readonly type: number;
    readonly botId: string;
    readonly userId: string;
    readonly guildId: string;
    readonly channelId: string;
    readonly createdAt: number;
    readonly commandName?: string;
    readonly sourceMessageId?: string;
    callbackType?: number;
    originalMessageId?: string;
    modal?: Modal;
    choices?: {
        readonly name: string;
        readonly value: string | number;
    }[];
}

export type Log = (entry: LogEntry) => void;

export interface LogEntry {
    readonly level: 'info' | 'warning' | 'error';
    readonly text: string;
}

export interface Marker {
    readonly id: string;
    readonly by: string;
    readonly sandbox?: string;
    readonly create?: {
        readonly name?: string;
        readonly provider?: string;
        readonly repo?: string;
        readonly snapshotId?: string;
    };
    readonly model?: string;
    readonly promptFile?: string;
}

export interface MemberRecord {
    readonly userId: string;
    readonly roleIds: string[];
    readonly joinedAt: number;
}

export interface Mentions {
    readonly userIds: readonly string[];
    readonly roleIds: readonly string[];
    readonly everyone: boolean;
}

export type MessageMatch = string | RegExp | ((message: TwinMessage) => boolean);

export interface MessageRecord {
    readonly id: string;
    readonly channelId: string;
    readonly authorId: string;
    readonly type: number;
    readonly createdAt: number;
    content: string;
    editedAt?: number;
    embeds: Embed[];
    components: Component[];
    attachments: AttachmentRecord[];
    flags: number;
    mentions: Mentions;
    readonly nonce?: string | number;
    readonly reactions: Map<string, {
        readonly emoji: Emoji;
        readonly userIds: Set<string>;
    }>;
    readonly reference?: {
        readonly channelId: string;
        readonly messageId?: string;
    };
    readonly interactionId?: string;
    readonly visibleTo?: string;
    threadId?: string;
    isPinned: boolean;
}

export interface Modal {
    readonly custom_id: string;
    readonly title: string;
    readonly components: readonly Component[];
}

export type ModalValues = Readonly<Record<string, string | readonly string[]>>;

export type OptionValue = string | number | boolean | Upload | {
    readonly id: string;
};

export interface Overwrite {
    readonly id: string;
    readonly type: 0 | 1;
    allow: bigint;
    deny: bigint;
}

export interface Pace {
    readonly editEveryMs: number;
    readonly editsPerSecond: number;
    readonly typingEveryMs: number;
    readonly typingThreads: number;
}

export declare const Permission: {
    readonly KickMembers: bigint;
    readonly Administrator: bigint;
    readonly ManageChannels: bigint;
    readonly ManageGuild: bigint;
    readonly AddReactions: bigint;
    readonly ViewChannel: bigint;
    readonly SendMessages: bigint;
    readonly ManageMessages: bigint;
    readonly EmbedLinks: bigint;
    readonly AttachFiles: bigint;
    readonly ReadMessageHistory: bigint;
    readonly MentionEveryone: bigint;
    readonly UseExternalEmojis: bigint;
    readonly ManageRoles: bigint;
    readonly ManageWebhooks: bigint;
    readonly UseApplicationCommands: bigint;
    readonly ManageThreads: bigint;
    readonly CreatePublicThreads: bigint;
    readonly CreatePrivateThreads: bigint;
    readonly SendMessagesInThreads: bigint;
};

export type PermissionName = keyof typeof Permission;

export interface RecordedCounters extends Counters {
    readonly record: Recorder;
}

export interface Recorder {
    request(route: string): void;
    limited(route: string, bucket: string): void;
    passed(bucket: string): void;
    message(channelId: string): void;
    edit(channelId: string): void;
    repeatedNonce(): void;
    gateway(what: 'connections' | 'identifies' | 'resumes'): void;
}

export interface RequestFault {
    readonly times?: number;
    readonly path?: string;
}

export interface RequestFaults {
    fail(route: string, options?: RequestFault & {
        status?: number;
    }): void;
    hang(route: string, options?: RequestFault): void;
    loseResponse(route: string, options?: RequestFault): void;
    delay(route: string, ms: number, options?: RequestFault): void;
    rateLimit(route: string, retryAfterMs: number, options?: RequestFault): void;
    clear(): void;
}

export interface RoleRecord {
    readonly id: string;
    readonly name: string;
    permissions: bigint;
    readonly position: number;
}

export interface SayOptions {
    readonly files?: readonly Upload[];
    readonly replyTo?: TwinMessage;
    readonly hasNitro?: boolean;
}

export interface SelectOption {
    readonly label: string;
    readonly value: string;
    readonly description?: string;
    readonly default?: boolean;
}

export interface SendPlace {
    readonly rest: REST;
    readonly appId: string;
    readonly userId: string;
    readonly guildId: string;
    readonly channelId: string;
    readonly isThread: boolean;
}

export interface SendRequest {
    readonly prompt: string;
    readonly marker: Omit<Marker, 'promptFile'>;
    readonly files?: readonly ChatFile[];
}

export interface Sent extends SendPlace {
    readonly messageId: string;
}

export interface ThreadRecord {
    readonly ownerId: string;
    readonly createdAt: number;
    readonly starterMessageId?: string;
    isArchived: boolean;
    isLocked: boolean;
    isInvitable: boolean;
    autoArchiveMinutes: number;
    archivedAt: number;
    activeAt: number;
    messageCount: number;
    totalMessageSent: number;
    readonly members: Map<string, {
        readonly joinedAt: number;
    }>;
}

export interface Twin {
    readonly api: string;
    readonly token: string;
    readonly mainBot: TwinBot;
    readonly counters: Counters;
    readonly limits: TwinLimits;
    readonly faults: {
        readonly requests: RequestFaults;
        readonly events: EventFaults;
    };
    readonly gateway: Pick<Gateway, 'drop' | 'cut' | 'invalidateSessions' | 'requestReconnect' | 'setZombie' | 'setAccepting' | 'connected'>;
    readonly clock: {
        now(): number;
        advance(ms: number): void;
    };
    guild(name?: string, options?: {
        bots?: readonly TwinBot[];
    }): TwinGuild;
    bot(name: string): TwinBot;
    setPrivilegedIntents(bot: TwinBot, intents: number): void;
    waitForBot(bot?: TwinBot, options?: WaitOptions): Promise<void>;
    waitFor<T>(what: string, find: () => T | undefined | false, options?: WaitOptions): Promise<T>;
    close(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}

export interface TwinBot {
    readonly id: string;
    readonly name: string;
    readonly token: string;
}

export declare class TwinChannel {
    readonly id: string;
    constructor(core: Core, record: ChannelRecord);
    get name(): string;
    get guildId(): string;
    get isThread(): boolean;
    get isArchived(): boolean;
    get isLocked(): boolean;
    get isDeleted(): boolean;
    get members(): string[];
    get messages(): TwinMessage[];
    get threads(): TwinChannel[];
    user(idOrName: string, options?: UserOptions): TwinUser;
    read(): string;
    transcript(): string;
    waitForMessage(match: MessageMatch, { after, ...options }?: WaitOptions & {
        after?: TwinMessage;
    }): Promise<TwinMessage>;
    waitForTranscript(match: string | RegExp, options?: WaitOptions): Promise<string>;
    waitForThread(name?: string | RegExp, options?: WaitOptions): Promise<TwinChannel>;
    waitUntil(condition: (channel: this) => boolean, options?: WaitOptions): Promise<this>;
    archive(isArchived?: boolean): void;
    lock(isLocked?: boolean): void;
    rename(name: string): void;
    delete(): void;
    deleteMessage(message: TwinMessage): void;
    deny(permissions: readonly PermissionName[], target?: {
        readonly id: string;
    }): void;
    allow(permissions: readonly PermissionName[], target?: {
        readonly id: string;
    }): void;
}

export interface TwinEvent {
    readonly name: string;
    readonly guildId: string;
    readonly intent: number;
    readonly channelId?: string;
    readonly botId?: string;
    readonly data: (viewer: Viewer) => object | undefined;
}

export declare class TwinGuild {
    readonly id: string;
    readonly name: string;
    constructor(core: Core, record: GuildRecord);
    channel(name: string): TwinChannel;
    get channels(): TwinChannel[];
    role(name: string, permissions?: readonly PermissionName[]): string;
    setRoles(member: {
        readonly id: string;
    }, names: readonly string[]): void;
    setEveryone(permissions: readonly PermissionName[]): void;
    setBotPermissions(bot: TwinBot, permissions: readonly PermissionName[]): void;
    invite(bot: TwinBot, permissions?: readonly PermissionName[]): void;
    kick(bot: TwinBot): void;
    hasBot(bot: TwinBot): boolean;
    setUnavailable(isUnavailable?: boolean): void;
    addMember(user: {
        readonly id: string;
    }): void;
}

export declare class TwinInteraction {
    readonly id: string;
    constructor(core: Core, record: InteractionRecord, what: string);
    get acknowledgement(): keyof typeof CallbackType | undefined;
    get modal(): Modal | undefined;
    get choices(): NonNullable<InteractionRecord['choices']>;
    get reply(): TwinMessage | undefined;
    get messages(): TwinMessage[];
    waitForReply(options?: WaitOptions): Promise<TwinMessage>;
}

export interface TwinLimits {
    acknowledgeMs: number;
    interactionTokenMs: number;
    nonceMs: number;
    fileBytes: number;
    filesPerMessage: number;
    hasRateLimits: boolean;
    globalPerSecond: number;
    buckets: Record<string, Bucket>;
    defaultBucket: Bucket;
    renameBucket: Bucket;
    heartbeatIntervalMs: number;
    resumeMs: number;
    resumeEvents: number;
}

export declare class TwinMessage {
    readonly id: string;
    constructor(core: Core, record: MessageRecord);
    get content(): string;
    get author(): string;
    get channelId(): string;
    get embeds(): readonly Embed[];
    get attachments(): readonly AttachmentRecord[];
    get isEphemeral(): boolean;
    get isThinking(): boolean;
    get isEdited(): boolean;
    get isDeleted(): boolean;
    get nonce(): string | number | undefined;
    get replyTo(): string | undefined;
    get pings(): string[];
    get reactions(): Record<string, string[]>;
    get buttons(): string[];
    get selects(): Component[];
    get components(): Component[];
    download(filename: string): Promise<Uint8Array>;
    waitUntil(match: MessageMatch, options?: WaitOptions): Promise<this>;
    toString(): string;
}

export interface TwinOptions {
    readonly port?: number;
    readonly limits?: Partial<TwinLimits>;
}

export declare class TwinUser {
    readonly id: string;
    readonly name: string;
    constructor(core: Core, channel: ChannelRecord, id: string, name: string);
    get channel(): TwinChannel;
    in(channel: TwinChannel): TwinUser;
    say(content: string, { files, replyTo, hasNitro }?: SayOptions): Promise<TwinMessage>;
    edit(message: TwinMessage, content: string): void;
    deleteMessage(message: TwinMessage): void;
    react(message: TwinMessage, emoji: string): void;
    unreact(message: TwinMessage, emoji: string): void;
    type(): void;
    startThread(name: string, from?: TwinMessage): TwinChannel;
    archive(thread: TwinChannel, isArchived?: boolean): void;
    unarchive(thread: TwinChannel): void;
    runSlashCommand(command: string, options?: Readonly<Record<string, OptionValue>>, { bot }?: {
        bot?: {
            readonly id: string;
        };
    }): Promise<TwinInteraction>;
    autocomplete(command: string, option: string, value: string, others?: Readonly<Record<string, OptionValue>>): Promise<TwinInteraction['choices']>;
    clickButton(message: TwinMessage, labelOrId: string): Promise<TwinInteraction>;
    select(message: TwinMessage, values: string | readonly string[], select?: string): Promise<TwinInteraction>;
    get modal(): import("../state/world.ts").Modal | undefined;
    submitModal(values: ModalValues): Promise<TwinInteraction>;
}

export interface Upload {
    readonly name: string;
    readonly bytes: Uint8Array;
    readonly contentType?: string;
    readonly description?: string;
}

export interface UserOptions {
    readonly roles?: readonly string[];
    readonly permissions?: readonly PermissionName[];
}

export interface UserRecord {
    readonly id: string;
    readonly name: string;
    readonly isBot: boolean;
}

export interface Viewer {
    readonly botId: string;
    readonly intents: number;
}

export interface WaitOptions {
    readonly timeoutMs?: number;
}

export interface World {
    readonly users: Map<string, UserRecord>;
    readonly bots: Map<string, BotRecord>;
    readonly guilds: Map<string, GuildRecord>;
    readonly channels: Map<string, ChannelRecord>;
    readonly interactions: Map<string, InteractionRecord>;
    readonly openModals: Map<string, InteractionRecord>;
    readonly files: Map<string, FileRecord>;
    readonly nonces: Map<string, {
        readonly messageId: string;
        readonly channelId: string;
        readonly createdAt: number;
    }>;
}

export declare function checkToken(text: string): string;

export declare function createBot(options: BotOptions): Promise<Bot>;

export declare function follow(sent: Sent, options?: FollowOptions): Promise<Followed>;

export declare function inviteLink(appId: string): string;

export declare function linkOf({ guildId, channelId, messageId, isThread }: Sent): string;

export declare function openPlace(token: string, channelId: string, { api }?: {
    api?: string;
}): Promise<SendPlace>;

export declare const permissions: {
    readonly 'View Channels': bigint;
    readonly 'Add Reactions': bigint;
    readonly 'Send Messages': bigint;
    readonly 'Embed Links': bigint;
    readonly 'Attach Files': bigint;
    readonly 'Read Message History': bigint;
    readonly 'Manage Threads': bigint;
    readonly 'Create Public Threads': bigint;
    readonly 'Send Messages in Threads': bigint;
};

export declare function send(place: SendPlace, { prompt, marker, files }: SendRequest): Promise<Sent>;

export declare function setUpBot(token: string, { api }?: {
    api?: string;
}): Promise<CheckedBot>;

export declare function startTwin({ port, limits: overrides }?: TwinOptions): Promise<Twin>;

export declare function systemdUnit({ command, user }: {
    command: readonly string[];
    user: string;
}): string;
