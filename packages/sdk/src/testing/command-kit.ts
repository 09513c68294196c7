import type { RuntimeProgram } from '../shared/runtime.ts'

export interface Command {
  readonly cmd: string
  readonly args: readonly string[]
}

/**
 * The programs that behaviours run. `posixCommands()` provides them for any POSIX shell; another kind of provider
 * brings its own table.
 *
 * Paths are relative to the program's working directory. Programs print exactly what is specified.
 */
export interface CommandKit {
  /** Prints the text to stdout or stderr, unchanged. */
  print(text: string): Command
  printError(text: string): Command
  /** Exits with this code. Reads no input. */
  exit(code: number): Command
  /** Sends this signal to itself. */
  die(signal: string): Command
  /** Copies stdin to stdout until end-of-file. */
  copyInput(): Command
  /** Prints the value of a variable, or `<unset>`. */
  printEnv(name: string): Command
  /** Prints the absolute path of the working directory. */
  printDir(): Command
  /** Prints each argument followed by a NUL. */
  printArgs(args: readonly string[]): Command
  bytes(): Command
  /** Prints `ready` and a newline, then waits forever. SIGTERM ends it. */
  wait(): Command
  /** Like `wait`, but on SIGTERM it prints `term` and a newline and exits with 7. */
  waitTrapped(): Command
  /** Reads lines: `out TEXT` and `err TEXT` print TEXT and a newline there, `exit N` exits with N. */
  relay(): Command
  /**
   * Prints this many bytes of repeated `0123456789abcde\n`, then creates the file `marker` if given. With `gate`,
   * first waits until that file exists.
   */
  flood(bytes: number, marker?: string, gate?: string): Command
  /** Prints `bytes` of the same pattern to stdout, then `errorBytes` (default: `bytes`) to stderr, then `bytes` to stdout. */
  floodBoth(bytes: number, errorBytes?: number): Command
  /** Prints `before\n`, waits until the file `path` exists, prints `after\n`. */
  gate(path: string): Command
  /** Prints `a` and the first byte of `é`; once the file `path` exists, its second byte and `z`. */
  splitCharacter(path: string): Command
  /**
   * Starts a child with a grandchild that ignores SIGTERM, SIGINT and SIGHUP. Prints `ready` and a newline when all
   * three run, and waits forever. `marker` is a path that identifies the tree for `afterTree`.
   */
  tree(marker: string, shape?: TreeShape): Command
  /**
   * Prints `watching` and a newline; when the last program of that tree has ended, prints `gone` and a newline, and
   * exits.
   */
  afterTree(marker: string): Command
  /**
   * Starts a daemon (own session, no parent), prints `started` and a newline when it runs, and exits. `afterTree` can
   * watch it.
   */
  daemon(marker: string): Command
  /** Starts a child that outlives it and holds stdout open, prints `started` and a newline, and exits. */
  leaveChild(): Command
  /** Prints the user id of programs: `0` if file modes do not apply. */
  userId(): Command
  /** Content of an executable file that prints `from a script`. */
  readonly script: string
  /** The name of a missing program. */
  readonly missing: string

  /** Serves HTTP on a port of the sandbox and responds with `body`. Prints `ready` and a newline when it listens. */
  server?(port: number, body: string): Command
  /**
   * Connects and sends `GET /` over HTTP/1.1. Prints `open` and a newline when a response arrives, keeps the connection,
   * and prints `closed` and a newline when it ends. Exits with 1 if there is no response.
   */
  connect?(host: string, port: number): Command
  /** Prints the version of the program of a runtime, with a `v` or the program's name before it. */
  version?(program: RuntimeProgram): Command
}

/** Variants of the grandchild of a tree. */
export interface TreeShape {
  /** It runs in its own session; with `parent`, the child that started it has ended too. */
  readonly leaves?: 'group' | 'parent'
  /** SIGTERM, SIGINT and SIGHUP end it. */
  readonly heeds?: boolean
}

export type OptionalProgram = 'server' | 'connect' | 'version'
