export interface LocalProviderOptions {
  /** The folder of the sandboxes. Default: `local` in `$SANDKASTEN_HOME`, or in `~/.sandkasten`. */
  root?: string
  /** Variables of this process that commands inherit. Otherwise they get only PATH and the locale. */
  inheritEnv?: readonly string[]
  /** Confirms that commands can do everything that this account can. Hides the warning. */
  acceptNoIsolation?: boolean
}
