// @sandkasten/database
//   Database
//   DatabaseKind
//   DatabaseLocation
//   FullDiskRules
//   Migration
//   Reserve
//   ReserveOptions
//   Schema
//   databaseError
//   diskFull
//   isDuplicate
//   migrate

// @sandkasten/database/sealed
//   KeySource
//   Place
//   SealedSchema
//   SealedSecrets
//   SealedValues
//   SealedValuesOptions
//   guardColumns
//   isStaleKey
//   keyGuard
//   keySource
//   mostTextBytes
//   unreadable

export declare class Database<Tables> {
    readonly kind: DatabaseKind;
    readonly db: Kysely<Tables>;
    static open<Tables>(location: DatabaseLocation, schema: Schema): Promise<Database<Tables>>;
    static connect<Tables>(location: DatabaseLocation): Promise<Database<Tables>>;
    guarded<T extends object>(queries: T, rules: FullDiskRules): T;
    reserveDisk(): void;
    giveBack(): Promise<void>;
    size(): Promise<number>;
    ping(): Promise<void>;
    close(): Promise<void>;
}

export type DatabaseKind = 'sqlite' | 'postgres';

export type DatabaseLocation = {
    readonly url: string;
} | {
    readonly file: string;
};

export type EraseDue = 'log' | 'everywhere';

export interface FullDiskRules {
    readonly essential: ReadonlySet<string>;
    readonly growing: ReadonlySet<string>;
}

export interface Key {
    readonly id: string;
    readonly secret: KeyObject;
}

export interface KeySource {
    readonly name: string;
    load(): Key[];
    save?(keys: readonly Key[]): void;
}

export interface KeySourceOptions {
    readonly file: string;
    readonly env: Readonly<Record<string, string | undefined>>;
}

export declare class LockedValues {
    constructor(trx: Transaction<unknown>, schema: SealedSchema);
    keyId(): Promise<string | undefined>;
    setKeyId(value: string): Promise<void>;
    replaceAll(change: (sealed: string, place: Place) => string): Promise<number>;
}

export interface Migration {
    readonly version: number;
    readonly name: string;
    up(db: Kysely<unknown>, kind: DatabaseKind): Promise<void>;
}

export interface Place {
    readonly table: string;
    readonly column: string;
    readonly row: string;
}

export declare class Reserve {
    constructor(databaseFile: string, { mostBytes, stays }?: ReserveOptions);
    get spent(): boolean;
    take(): void;
    spend(): boolean;
    remove(): void;
}

export interface ReserveOptions {
    readonly mostBytes?: number;
    readonly stays?: boolean;
}

export interface Schema {
    readonly program: string;
    readonly versionTable: string;
    readonly lockId: number;
    readonly migrations: readonly Migration[];
}

export interface SealedSchema {
    readonly facts: string;
    readonly check: string;
    readonly columns: ReadonlyArray<{
        readonly table: string;
        readonly column: string;
    }>;
}

export declare class SealedSecrets {
    static open(values: SealedValues, source: KeySource): Promise<SealedSecrets>;
    seal(text: string, place: Place): Promise<string>;
    open(sealed: string, place: Place): Promise<string>;
    storing<T>(work: () => Promise<T>): Promise<T>;
    rotate(): Promise<{
        keyId: string;
        values: number;
    }>;
    replacing<T>(what: EraseDue, work: () => Promise<T>): Promise<T>;
}

export declare class SealedValues {
    constructor(db: Kysely<any>, kind: DatabaseKind, options: SealedValuesOptions);
    keyId(): Promise<string | undefined>;
    read({ table, column, row }: Place): Promise<string | null>;
    exclusively<T>(work: (values: LockedValues) => Promise<T>): Promise<T>;
    protect(): Promise<void>;
    eraseOld({ everywhere }?: {
        everywhere?: boolean;
    }): Promise<boolean>;
    markErase(what: EraseDue): Promise<void>;
    eraseDue(): Promise<EraseDue | undefined>;
    clearErase(): Promise<void>;
}

export interface SealedValuesOptions extends SealedSchema {
    readonly protectOnlyKeys?: boolean;
}

export declare function databaseError(error: unknown, file?: string): unknown;

export declare function diskFull(cause?: Error): SandboxError;

export declare function guardColumns({ facts, check, columns }: SealedSchema): Migration['up'];

export declare function isDuplicate(error: unknown): boolean;

export declare function isStaleKey(error: unknown): boolean;

export declare function keyGuard(schema: SealedSchema): Migration['up'];

export declare function keySource({ file, env }: KeySourceOptions): KeySource;

export declare function migrate(db: Kysely<unknown>, kind: DatabaseKind, { program, versionTable, lockId, migrations }: Schema, { upTo }?: {
    upTo?: number;
}): Promise<number>;

export declare const mostTextBytes: number;

export declare function unreadable({ table, column, row }: Place): SandboxError;
