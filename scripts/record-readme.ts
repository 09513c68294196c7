/**
 * Records docs/readme.svg, the picture in the README: runs each command for real, notes when each line of output
 * appears, and draws a terminal that replays it. Needs a machine that can isolate: `node scripts/record-readme.ts`.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'

const root = path.resolve(import.meta.dirname, '..')
export const commands = [
  "npx sandkasten run -- python3 -c 'print(6 * 7)'",
  'npx sandkasten run -- cat /etc/shadow',
  'npx sandkasten run --memory 64m -- python3 -c \'print(len("x" * 10**9))\'',
  'npm run --silent example',
]
const pauseMs = 1200
const lineHeight = 20
const columns = 84

interface Line {
  readonly text: string
  readonly atMs: number
  readonly command?: string
}

if (import.meta.main) {
  const lines: Line[] = []
  let atMs = 300
  for (const command of commands) {
    lines.push({ text: command, atMs, command })
    atMs = await record(command, atMs + pauseMs / 2, lines)
    atMs += pauseMs
  }
  writeFileSync(path.join(root, 'docs/readme.svg'), svg(lines, atMs + 4000))
}

/** Runs the command, appends its output to `lines`, and returns the time when it ended. */
async function record(command: string, startMs: number, lines: Line[]): Promise<number> {
  const begun = performance.now()
  const env = { ...process.env, npm_config_loglevel: 'error' }
  const child = spawn('bash', ['-c', `${command} 2>&1`], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let rest = ''
  for await (const chunk of child.stdout) {
    const parts = (rest + chunk).split('\n')
    rest = parts.pop()!
    for (const text of parts) lines.push({ text, atMs: startMs + performance.now() - begun })
  }
  return startMs + performance.now() - begun
}

/** Without animation, as in a converter, the picture shows the last frame. */
function svg(lines: readonly Line[], totalMs: number): string {
  const wrapped = lines.flatMap((line) => wrap(line))
  const width = columns * 8.4 + 40
  const height = wrapped.length * lineHeight + 56
  const percent = (ms: number) => ((ms / totalMs) * 100).toFixed(2)
  const times = [...new Set(wrapped.map(({ atMs }) => percent(atMs)))]
  const frames = times.map(
    (
      at,
      index,
    ) => `@keyframes k${index}{0%,${at}%{opacity:0}${(Number(at) + 0.01).toFixed(2)}%,100%{opacity:1}}
.k${index}{animation:k${index} ${(totalMs / 1000).toFixed(1)}s linear infinite}`,
  )
  const texts = wrapped.map(({ text, atMs, command, first }, index) => {
    const name = `k${times.indexOf(percent(atMs))}`
    const data = command && first ? ` data-command="${escaped(command)}"` : ''
    const prompt = command && first ? '<tspan class="p">$ </tspan>' : ''
    return `<text class="${name}${command ? ' c' : ''}" x="20" y="${52 + index * lineHeight}"${data}>${prompt}${escaped(text)}</text>`
  })
  return picture({
    title: 'sandkasten in a terminal',
    width,
    height,
    style: `.c{fill:#fff;font-weight:600}.p{fill:#3fb950}
@media (prefers-reduced-motion:no-preference){
${frames.join('\n')}
}`,
    content: texts.join('\n'),
  })
}

export interface Picture {
  readonly title: string
  readonly width: number
  readonly height: number
  readonly style: string
  /** Elements on a dark window. */
  readonly content: string
}

/** An SVG with the window of a terminal. */
export function picture({ title, width, height, style, content }: Picture): string {
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" xml:space="preserve">
<title>${title}</title>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}
${style}
</style>
<rect width="100%" height="100%" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="6" fill="#ff5f56"/><circle cx="40" cy="18" r="6" fill="#ffbd2e"/><circle cx="60" cy="18" r="6" fill="#27c93f"/>
${content}
</svg>
`
}

/** Breaks a long line between words. */
function wrap(line: Line): Array<Line & { first: boolean }> {
  const width = columns - (line.command ? 2 : 0)
  const parts = line.text.match(new RegExp(`.{1,${width}}(?= |$)|.{1,${width}}`, 'g')) ?? ['']
  return parts.map((text, index) => ({ ...line, text: index ? text.trimStart() : text, first: index === 0 }))
}

export function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
