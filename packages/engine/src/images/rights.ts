/**
 * Who makes and removes the files of layers, where the store's own process may not: they have the owners that sandboxes see, which for root's store are the
 * numbers themselves and for an account's are those of its range (`isolators/oci/privileges.ts` makes one of these).
 */
export interface ImageRights {
  /** How to start a program that gives files to the ids of sandboxes: 0 to 65535 are those, to it. */
  asSandboxes(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
  /** How to start one that makes files of our own, and has a root folder of its own choice. */
  asOurselves(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
}
