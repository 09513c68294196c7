import type { ProcessExit } from '@sandkasten/sdk'

/** Describes the end of a process as Go's `os.ProcessState` does, which E2B passes on. */
export function endOf({ exitCode, signal }: ProcessExit): object {
  if (signal !== undefined) {
    const status = `signal: ${signalWords[signal] ?? signal}`
    return { exitCode: -1, exited: false, status, error: status }
  }
  const status = `exit status ${exitCode}`
  return { exitCode, exited: true, status, error: exitCode === 0 ? undefined : status }
}

const signalWords: Readonly<Record<string, string>> = {
  SIGHUP: 'hangup',
  SIGINT: 'interrupt',
  SIGQUIT: 'quit',
  SIGILL: 'illegal instruction',
  SIGTRAP: 'trace/breakpoint trap',
  SIGABRT: 'aborted',
  SIGBUS: 'bus error',
  SIGFPE: 'floating point exception',
  SIGKILL: 'killed',
  SIGUSR1: 'user defined signal 1',
  SIGSEGV: 'segmentation fault',
  SIGUSR2: 'user defined signal 2',
  SIGPIPE: 'broken pipe',
  SIGALRM: 'alarm clock',
  SIGTERM: 'terminated',
}
