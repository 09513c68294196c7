export interface LocalProviderOptions {
  /** Where sandboxes are kept. Default: `local` in `$SANDKASTEN_HOME`, or in `~/.sandkasten`. */
  root?: string
  /** Variables of this process that commands may see; otherwise they see PATH and the locale only. */
  inheritEnv?: readonly string[]
  /** You know that commands can do whatever this account can; no warning is shown. */
  acceptNoIsolation?: boolean
}
