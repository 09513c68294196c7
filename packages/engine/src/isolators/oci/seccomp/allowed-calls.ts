import { aarch64, x86_64 } from './numbers.ts'

/**
 * Which system calls a sandbox may make: an allow-list. A known call that is not listed gets EPERM. A call that is
 * newer than our tables gets ENOSYS, so that programs fall back as on an older kernel. A call of a foreign
 * architecture (i386 on x86-64) ends the process: its numbers mean other calls, which would bypass the list.
 *
 * Deliberately allowed:
 * - `ptrace`, `process_vm_*`: users need debuggers and strace. A tracer sees its own pid and user namespace and its
 * own uid. The runner has another uid and is not dumpable. (Kernels before 4.8 let a tracer bypass seccomp; we need
 * 5.19 anyway.)
 * - `seccomp`, `landlock_*`: programs may confine themselves further.
 * - `mknod`: FIFOs; device nodes are impossible in a user namespace.
 * - the `set*id` calls: the runner becomes the sandbox's user with them; that user has no capability to use them.
 *
 * Deliberately refused though Docker's default allows them: `modify_ldt`, `adjtimex`, `fanotify_*`, `lookup_dcookie`,
 * `io_uring_*`, and any socket family but Unix, IPv4, IPv6 and routing netlink.
 */

export type Architecture = 'x86_64' | 'aarch64'

/** All checks must hold. The kernel reads 32 bits of each of these arguments, so exactly 32 bits are compared. */
export interface Check {
  readonly arg: 0 | 1 | 2 | 3 | 4 | 5
  readonly mask?: number
  readonly in?: readonly number[]
  readonly notIn?: readonly number[]
}

/** Allowed when one of the cases holds, otherwise refused with this errno. */
export interface Rule {
  readonly cases: readonly (readonly Check[])[]
  readonly errno: number
}

export interface Policy {
  readonly architecture: Architecture
  /** The kernel's AUDIT_ARCH_* of that architecture. */
  readonly audit: number
  readonly numbers: Readonly<Record<string, number>>
  readonly allow: readonly string[]
  readonly rules: Readonly<Record<string, Rule>>
  /**
   * Known calls that get ENOSYS. Libraries then fall back to a call whose arguments the filter can inspect, or to one
   * that uses no machine-wide resource.
   */
  readonly absent: readonly string[]
}

export const EPERM = 1
export const ENOSYS = 38
const EAFNOSUPPORT = 97

const CLONE_NEWTIME = 0x80
/** NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. Not NEWTIME: in `clone` that bit belongs to the exit signal. */
const CLONE_NEW = 0x7e020000
const [TIOCSTI, TIOCLINUX, TIOCSETD] = [0x5412, 0x541c, 0x5423]
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK] = [1, 2, 10, 16]
const [SOCK_STREAM, SOCK_DGRAM, SOCK_TYPE_MASK] = [1, 2, 0xf]
const NETLINK_ROUTE = 0
/**
 * The default of the type, ICMP (ping without privileges), TCP, UDP, ICMPv6, MPTCP. Others would make the kernel load
 * modules.
 */
const INET_PROTOCOLS = [0, 1, 6, 17, 58, 262]

const rules: Readonly<Record<string, Rule>> = {
  clone: { cases: [[{ arg: 0, mask: CLONE_NEW, in: [0] }]], errno: EPERM },
  unshare: { cases: [[{ arg: 0, mask: CLONE_NEW | CLONE_NEWTIME, in: [0] }]], errno: EPERM },
  socket: {
    cases: [
      [{ arg: 0, in: [AF_UNIX] }],
      [
        { arg: 0, in: [AF_INET, AF_INET6] },
        { arg: 1, mask: SOCK_TYPE_MASK, in: [SOCK_STREAM, SOCK_DGRAM] },
        { arg: 2, in: INET_PROTOCOLS },
      ],
      [
        { arg: 0, in: [AF_NETLINK] },
        { arg: 2, in: [NETLINK_ROUTE] },
      ],
    ],
    errno: EAFNOSUPPORT,
  },
  socketpair: { cases: [[{ arg: 0, in: [AF_UNIX] }]], errno: EAFNOSUPPORT },
  // These insert input into another terminal, or load the kernel module of a line discipline.
  ioctl: { cases: [[{ arg: 1, notIn: [TIOCSTI, TIOCLINUX, TIOCSETD] }]], errno: EPERM },
  // Linux, 32-bit Linux, both with UNAME26, and queries. ADDR_NO_RANDOMIZE and READ_IMPLIES_EXEC are refused.
  personality: { cases: [[{ arg: 0, in: [0, 8, 0x20000, 0x20008, 0xffffffff] }]], errno: EPERM },
}

// The kernel has room for `fs.aio-max-nr` (65536) events of asynchronous I/O in the whole machine, without a limit
// per user. Libraries fall back to threads.
const absent = ['clone3', 'io_setup', 'io_destroy', 'io_submit', 'io_cancel', 'io_getevents', 'io_pgetevents']

// biome-ignore format: a list to read by group
const allow = [
  // files
  'read', 'write', 'open', 'close', 'stat', 'fstat', 'lstat', 'lseek', 'pread64', 'pwrite64', 'readv', 'writev', 'preadv', 'pwritev',
  'preadv2', 'pwritev2', 'access', 'faccessat', 'faccessat2', 'openat', 'openat2', 'creat', 'dup', 'dup2', 'dup3', 'fcntl', 'flock',
  'fsync', 'fdatasync', 'sync', 'syncfs', 'sync_file_range', 'truncate', 'ftruncate', 'fallocate', 'fadvise64', 'readahead', 'cachestat',
  'getdents', 'getdents64', 'getcwd', 'chdir', 'fchdir', 'rename', 'renameat', 'renameat2', 'mkdir', 'mkdirat', 'rmdir', 'link',
  'linkat', 'unlink', 'unlinkat', 'symlink', 'symlinkat', 'readlink', 'readlinkat', 'chmod', 'fchmod', 'fchmodat', 'fchmodat2', 'chown',
  'fchown', 'lchown', 'fchownat', 'umask', 'mknod', 'mknodat', 'newfstatat', 'statx', 'statfs', 'fstatfs', 'utime', 'utimes',
  'utimensat', 'futimesat', 'setxattr', 'lsetxattr', 'fsetxattr', 'getxattr', 'lgetxattr', 'fgetxattr', 'listxattr', 'llistxattr',
  'flistxattr', 'removexattr', 'lremovexattr', 'fremovexattr', 'setxattrat', 'getxattrat', 'listxattrat', 'removexattrat',
  'name_to_handle_at', 'sendfile', 'splice', 'tee', 'vmsplice', 'copy_file_range', 'close_range', 'inotify_init', 'inotify_init1',
  'inotify_add_watch', 'inotify_rm_watch',
  'ioprio_get', 'ioprio_set', 'file_getattr', 'file_setattr',
  // waiting
  'poll', 'ppoll', 'select', 'pselect6', 'epoll_create', 'epoll_create1', 'epoll_ctl', 'epoll_ctl_old', 'epoll_wait', 'epoll_wait_old',
  'epoll_pwait', 'epoll_pwait2', 'eventfd', 'eventfd2', 'signalfd', 'signalfd4', 'timerfd_create', 'timerfd_settime', 'timerfd_gettime',
  'pipe', 'pipe2', 'futex', 'futex_waitv', 'futex_wake', 'futex_wait', 'futex_requeue', 'set_robust_list', 'get_robust_list', 'rseq',
  'membarrier', 'restart_syscall', 'pause', 'nanosleep', 'clock_nanosleep',
  // memory
  'mmap', 'mprotect', 'munmap', 'brk', 'mremap', 'msync', 'mincore', 'madvise', 'process_madvise', 'process_mrelease', 'mlock', 'mlock2',
  'munlock', 'mlockall', 'munlockall', 'remap_file_pages', 'memfd_create', 'memfd_secret', 'pkey_mprotect', 'pkey_alloc', 'pkey_free',
  'map_shadow_stack', 'mseal', 'get_mempolicy',
  // processes
  'fork', 'vfork', 'execve', 'execveat', 'exit', 'exit_group', 'wait4', 'waitid', 'kill', 'tkill', 'tgkill', 'pidfd_open',
  'pidfd_send_signal', 'pidfd_getfd', 'getpid', 'getppid', 'gettid', 'getpgid', 'getpgrp', 'setpgid', 'getsid', 'setsid', 'prctl',
  'arch_prctl', 'set_tid_address', 'set_thread_area', 'get_thread_area', 'ptrace', 'process_vm_readv', 'process_vm_writev', 'seccomp',
  'landlock_create_ruleset', 'landlock_add_rule', 'landlock_restrict_self', 'getrlimit', 'setrlimit', 'prlimit64', 'getrusage',
  'getpriority', 'setpriority', 'sched_yield', 'sched_getparam', 'sched_setparam', 'sched_getscheduler', 'sched_setscheduler',
  'sched_get_priority_max', 'sched_get_priority_min', 'sched_rr_get_interval', 'sched_getaffinity', 'sched_setaffinity',
  'sched_getattr', 'sched_setattr', 'getcpu',
  // signals
  'rt_sigaction', 'rt_sigprocmask', 'rt_sigreturn', 'rt_sigpending', 'rt_sigtimedwait', 'rt_sigqueueinfo', 'rt_tgsigqueueinfo',
  'rt_sigsuspend', 'sigaltstack', 'alarm', 'getitimer', 'setitimer', 'timer_create', 'timer_settime', 'timer_gettime',
  'timer_getoverrun', 'timer_delete',
  // users and clocks
  'getuid', 'geteuid', 'getgid', 'getegid', 'getresuid', 'getresgid', 'getgroups', 'setuid', 'setgid', 'setreuid', 'setregid',
  'setresuid', 'setresgid', 'setfsuid', 'setfsgid', 'setgroups', 'capget', 'capset', 'uname', 'sysinfo', 'times', 'time', 'gettimeofday',
  'clock_gettime', 'clock_getres', 'getrandom',
  // sockets, and System V and POSIX queues (in an ipc namespace of their own)
  'connect', 'accept', 'accept4', 'bind', 'listen', 'sendto', 'recvfrom', 'sendmsg', 'recvmsg', 'sendmmsg', 'recvmmsg', 'shutdown',
  'getsockname', 'getpeername', 'setsockopt', 'getsockopt', 'shmget', 'shmat', 'shmctl', 'shmdt', 'semget', 'semop', 'semctl',
  'semtimedop', 'msgget', 'msgsnd', 'msgrcv', 'msgctl', 'mq_open', 'mq_unlink', 'mq_timedsend', 'mq_timedreceive', 'mq_notify',
  'mq_getsetattr',
]

export function policyFor(architecture: Architecture): Policy {
  const [audit, numbers] =
    architecture === 'x86_64' ? ([0xc000003e, x86_64] as const) : ([0xc00000b7, aarch64] as const)
  return { architecture, audit, numbers, allow, rules, absent }
}
