/**
 * Runs programs that create and remove the files of layers, for a store whose own process lacks the permission. These
 * files have the owners that sandboxes see: in root's store the ids themselves, in an account's store the ids of its
 * range. `isolators/oci/privileges/privileges.ts` implements it.
 */
export interface ImageRights {
  /** Starts a program that sees the ids of sandboxes as 0 to 65535 and can give files to them. */
  asSandboxes(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
  /** Starts a program that makes files of our own and may choose its root folder. */
  asOurselves(runner: string, program: string, ...args: string[]): readonly [string, ...string[]]
}
