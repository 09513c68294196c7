/**
 * How to run programs that make and remove the files of layers where the store's own process may not. These files
 * have the owners that sandboxes see: in root's store the ids themselves, in an account's store the ids of its range.
 * `isolators/oci/privileges/privileges.ts` makes one of these.
 */
export interface ImageRights {
  /** How to start a program that gives files to the ids of sandboxes: 0 to 65535 are those, to it. */
  asSandboxes(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
  /** Starts a program that makes files of our own and may choose its root folder. */
  asOurselves(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
}
