/** A program and its arguments, as `runCommand` takes them. */
export interface Command {
  readonly cmd: string
  readonly args: readonly string[]
}

/**
 * The programs that behaviours run. `posixCommands()` has them for anything with a POSIX shell;
 * a provider of another kind brings its own table.
 *
 * Paths are relative to the program's working directory. Programs that print say nothing else.
 */
export interface CommandKit {
  /** The text, exactly, on stdout or on stderr. */
  print(text: string): Command
  printError(text: string): Command
  /** Ends with this code. Reads no input. */
  exit(code: number): Command
  /** Ends by sending this signal to itself. */
  die(signal: string): Command
  /** stdin to stdout, until end-of-file. */
  copyInput(): Command
  /** The value of a variable, exactly; `<unset>` when there is none. */
  printEnv(name: string): Command
  /** The absolute path of the working directory, exactly. */
  printDir(): Command
  /** Each argument followed by a NUL. */
  printArgs(args: readonly string[]): Command
  /** All 256 byte values in order, on stdout. */
  bytes(): Command
  /** `ready` and a newline, then nothing for ever. Dies of SIGTERM. */
  wait(): Command
  /** As `wait`, but SIGTERM makes it print `term` and a newline and end with code 7. */
  waitTrapped(): Command
  /** Lines of stdin: `out TEXT` and `err TEXT` print TEXT and a newline there, `exit N` ends with N. */
  relay(): Command
  /** This many bytes of `0123456789abcde\n` over and over on stdout; then, if given, makes the file `marker`. With `gate`, not before that file is there. */
  flood(bytes: number, marker?: string, gate?: string): Command
  /** Prints `before\n`, waits until the file `path` is there, prints `after\n`. */
  gate(path: string): Command
  /** Prints `a` and the first byte of `é`; when the file `path` is there, its second byte and `z`. */
  splitCharacter(path: string): Command
  /**
   * Starts a child that starts a grandchild that ignores SIGTERM, SIGINT and SIGHUP; prints `ready` and a
   * newline when all three run, and goes on for ever. `marker` is a path that `afterTree` knows it by.
   */
  tree(marker: string, shape?: TreeShape): Command
  /** Prints `watching` and a newline; when the last program of that tree has ended, `gone` and a newline, and ends. */
  afterTree(marker: string): Command
  /** Starts a daemon (a session of its own, no parent), prints `started` and a newline when it runs, and ends. `afterTree` knows it. */
  daemon(marker: string): Command
  /** Starts a child that outlives it and holds on to stdout, prints `started` and a newline, and ends. */
  leaveChild(): Command
  /** The number of the user that programs run as: `0` for one whom no file mode stops. */
  userId(): Command
  /** Content of a file that, made executable and run by its path, prints `from a script`. */
  readonly script: string
  /** A name that no program has. */
  readonly missing: string

  /** Serves HTTP on a port of the sandbox: every answer is `body`. Prints `ready` and a newline when it listens. */
  server?(port: number, body: string): Command
}

/** How the grandchild of a tree differs. */
export interface TreeShape {
  /** It has left for a session of its own; with `parent`, the child that started it has ended as well. */
  readonly leaves?: 'group' | 'parent'
  /** It dies of SIGTERM, SIGINT and SIGHUP like any program. */
  readonly heeds?: boolean
}

export type OptionalProgram = 'server'
