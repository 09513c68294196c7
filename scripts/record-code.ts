/**
 * Records docs/code.svg, the picture in docs/code.md: types into `sandkasten code` on a real terminal, with the real
 * opencode in a sandbox and a scripted model, and draws the screens in turn. Needs a machine that can isolate:
 * `node scripts/suites.ts recording opencode && node --conditions=sandkasten-source scripts/record-code.ts`.
 */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import xterm, { type Terminal } from '@xterm/headless'
import { sample } from '../packages/cli/test/code/sample.ts'
import { keys, onTerminal, type Pty } from '../packages/cli/test/sandbox/pty.ts'
import { escaped, picture } from './record-readme.ts'
import { root } from './tools.ts'

const columns = 80
const rows = 24
const pauseMs = 1200
const sampleMs = 250

interface Screen {
  readonly atMs: number
  readonly lines: readonly string[]
}

const project = await sample()
try {
  // The first start copies the agent, which takes longer than a reader wants to watch.
  const model = ['--model', 'local/qwen3', '--model-url', project.model.url]
  await project.code(['-p', 'hello', ...model])
  project.model.script = ({ answered }) =>
    [
      { tool: 'edit', args: { filePath: '/workspace/sum.js', oldString: 'a - b', newString: 'a + b' } },
      { text: 'sum() subtracted its arguments. It adds them now.' },
    ][answered] ?? { text: 'Done.' }
  const screens = await record(onTerminal(['code', '--new'], project.env, project.folder), async (pty) => {
    await pty.expect('Ask anything')
    await typed(pty, 'fix sum() in sum.js')
    await pty.expect('adds them now')
    await pause(pauseMs * 2)
    pty.type(keys.interrupt)
    await pty.expect('Pull the changes?')
    await pause(pauseMs)
    pty.type(keys.enter)
    await pty.expect('Come back')
  })
  writeFileSync(path.join(root, 'docs/code.svg'), svg(screens))
} finally {
  await project[Symbol.asyncDispose]()
}

/** The screens that a person would see, one for each moment in which something has changed. */
async function record(pty: Pty, act: (pty: Pty) => Promise<void>): Promise<Screen[]> {
  const terminal = new xterm.Terminal({ cols: columns, rows, allowProposedApi: true })
  // Programs ask the terminal what it can do.
  terminal.onData((answer) => pty.type(answer))
  terminal.write('\x1b[1m$ sandkasten code\x1b[0m\r\n')
  pty.child.stdout!.on('data', (text: string) => terminal.write(text))
  const startedAt = performance.now()
  const screens: Screen[] = []
  const timer = setInterval(() => {
    const lines = linesOf(terminal)
    if (lines.join('\n') !== screens.at(-1)?.lines.join('\n'))
      screens.push({ atMs: performance.now() - startedAt, lines })
  }, sampleMs)
  await act(pty)
  await pty.ended()
  await pause(sampleMs * 2)
  clearInterval(timer)
  return screens
}

async function typed(pty: Pty, text: string): Promise<void> {
  for (const letter of text) {
    pty.type(letter)
    await pause(60)
  }
  await pause(pauseMs)
  pty.type(keys.enter)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Each line as the content of a <text>: runs of characters with the same look. */
function linesOf(terminal: Terminal): string[] {
  const { active } = terminal.buffer
  return Array.from({ length: rows }, (_, row) => {
    const line = active.getLine(active.viewportY + row)
    const runs: Array<{ look: string; text: string }> = []
    for (let column = 0; column < columns; column += 1) {
      const cell = line?.getCell(column)
      const look = [
        cell?.isBold() ? 'b' : '',
        cell?.isDim() ? 'd' : '',
        colorOf(cell?.getFgColor(), cell?.isFgRGB()),
      ]
      const run = { look: look.filter(Boolean).join(' '), text: cell?.getChars() || ' ' }
      const last = runs.at(-1)
      if (last?.look === run.look) last.text += run.text
      else runs.push(run)
    }
    if (runs.at(-1)?.text.trim() === '') runs.pop()
    return runs.map(({ look, text }) => `<tspan class="${look}">${escaped(text)}</tspan>`).join('')
  })
}

/** The classes of colors: the terminal's eight, and anything else as it is. */
function colorOf(color = -1, isRgb = false): string {
  return isRgb || color < 0 || color > 15 ? '' : `c${color % 8}`
}

/** Without animation, as in a converter, the picture shows the answer of the agent. */
function svg(screens: readonly Screen[]): string {
  const totalMs = screens.at(-1)!.atMs + 4000
  const percent = (ms: number) => ((ms / totalMs) * 100).toFixed(2)
  const shown = screens.findLastIndex(({ lines }) => lines.some((line) => line.includes('adds them now')))
  const frames = screens.map(({ atMs }, index) => {
    const end = index + 1 < screens.length ? screens[index + 1]!.atMs : totalMs
    return `@keyframes k${index}{0%,${percent(atMs)}%{opacity:0}${percent(atMs + 1)}%,${percent(end)}%{opacity:1}${percent(end + 1)}%,100%{opacity:0}}
.k${index}{animation:k${index} ${(totalMs / 1000).toFixed(1)}s linear infinite}`
  })
  const groups = screens.map(({ lines }, index) => {
    const texts = lines.flatMap((line, row) =>
      line === '' ? [] : [`<text x="20" y="${52 + row * 20}">${line}</text>`],
    )
    return `<g class="f k${index}"${index === shown ? ' style="--shown:1"' : ''}>\n${texts.join('\n')}\n</g>`
  })
  return picture({
    title: 'sandkasten code in a terminal',
    width: columns * 8.4 + 40,
    height: rows * 20 + 56,
    style: `.f{opacity:var(--shown,0)}.b{font-weight:600}.d{opacity:.6}
.c1{fill:#ff7b72}.c2{fill:#3fb950}.c3{fill:#d29922}.c4{fill:#58a6ff}.c5{fill:#bc8cff}.c6{fill:#39c5cf}
@media (prefers-reduced-motion:no-preference){
${frames.join('\n')}
}`,
    content: groups.join('\n'),
  })
}
