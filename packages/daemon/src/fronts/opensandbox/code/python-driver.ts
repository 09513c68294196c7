/**
 * The program that runs a Python context in the sandbox. It reads requests (`{"id", "code"}`, one per line) and responds
 * with frames, one line of JSON each. Requests and frames use separate descriptors. The code has an empty stdin, and
 * its output comes through pipes, so output is not mistaken for a frame. Code can forge frames, but only of its own
 * context.
 *
 * After each request a mark is written into both pipes. When the mark arrives, all earlier output has been sent.
 */
export const pythonDriver = String.raw`
import ast, codecs, json, os, signal, sys, threading, time, traceback
requests = os.fdopen(os.dup(0), 'r', encoding='utf-8', newline='\n')
answers = os.dup(1)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
mark = b'\0' + os.urandom(16).hex().encode() + b'\0'
lock = threading.Lock()
now = {'id': '', 'runs': False}

def send(type, **fields):
    frame = {'id': now['id'], 'type': type, **fields}
    data = (json.dumps(frame, ensure_ascii=False) + '\n').encode('utf-8', 'replace')
    with lock:
        while data:
            data = data[os.write(answers, data):]

def pump(pipe, name, drained):
    decoder = codecs.getincrementaldecoder('utf-8')('replace')
    rest = b''
    while True:
        chunk = os.read(pipe, 16384)
        if not chunk:
            return
        rest += chunk
        while True:
            at = rest.find(mark)
            if at == -1:
                keep = next((n for n in range(min(len(mark) - 1, len(rest)), 0, -1) if mark.startswith(rest[-n:])), 0)
                text, rest = rest[:len(rest) - keep], rest[len(rest) - keep:]
            else:
                text, rest = rest[:at], rest[at + len(mark):]
            text = decoder.decode(text)
            if text:
                send(name, text=text)
            if at == -1:
                break
            drained.set()

pumps = []
for target, name in ((1, 'stdout'), (2, 'stderr')):
    source, sink = os.pipe()
    os.dup2(sink, target)
    os.close(sink)
    drained = threading.Event()
    threading.Thread(target=pump, args=(source, name, drained), daemon=True).start()
    pumps.append((target, drained))

def interrupted(*_):
    if now['runs']:
        raise KeyboardInterrupt

signal.signal(signal.SIGINT, interrupted)
sys.stdout.reconfigure(line_buffering=True)

def flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    for target, drained in pumps:
        drained.clear()
        try:
            os.write(target, mark)
        except OSError:
            continue
        drained.wait(5)

def cut(text):
    return text if len(text) <= 500000 else text[:500000] + '…'

def run(code, scope):
    tree = ast.parse(code, '<code>')
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, '<code>', 'exec', dont_inherit=True), scope)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), '<code>', 'eval', dont_inherit=True), scope)
    if value is None:
        return None
    scope['_'] = value
    return cut(repr(value))

scope = {'__name__': '__main__', '__builtins__': __builtins__}
count = 0
for line in iter(requests.readline, ''):
    request = json.loads(line)
    count += 1
    now['id'] = request['id']
    send('execution_count', execution_count=count)
    result = error = None
    started = time.monotonic()
    try:
        now['runs'] = True
        try:
            result = run(request['code'], scope)
        finally:
            now['runs'] = False
    except BaseException as cause:
        now['runs'] = False
        frames = cause.__traceback__
        while frames and frames.tb_frame.f_code.co_filename != '<code>':
            frames = frames.tb_next
        error = {'ename': type(cause).__name__, 'evalue': cut(str(cause)),
                 'traceback': cut(''.join(traceback.format_exception(type(cause), cause, frames))).splitlines()}
    flush()
    if result is not None:
        send('result', results={'text/plain': result})
    if error is not None:
        send('error', error=error)
    send('done', execution_time=round((time.monotonic() - started) * 1000))
`
