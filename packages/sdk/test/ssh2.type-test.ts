import type * as real from 'ssh2'
import type { Ssh2Channel, Ssh2Client, Ssh2Config, Ssh2Sftp } from '../src/providers/ssh/sdk.ts'

/** The ssh provider's types of ssh2 fit the real package. */
export const client = (given: real.Client): Ssh2Client => given
export const channel = (given: real.ClientChannel): Ssh2Channel => given
export const sftp = (given: real.SFTPWrapper): Ssh2Sftp => given
export const config = (ours: Ssh2Config): real.ConnectConfig => ours
