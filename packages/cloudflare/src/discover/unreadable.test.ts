/** Errors about a sandbox file that cannot be read (K9), and warnings about likely mistakes. */
import { expect, test } from 'vitest'
import { project, sandbox } from '../../test/project.ts'
import { discover } from './discover.ts'

const IMPORT = "import { Sandbox } from '@cloudflare/sandbox'\n"

const UNREADABLE: {
  name: string
  text: string
  code: string
  at: string
  fix?: RegExp
  more?: { [file: string]: string }
}[] = [
  { name: 'a syntax error', text: `${IMPORT}export default class {{`, code: 'syntax', at: '2:23' },
  {
    name: 'no default export',
    text: `${IMPORT}export class ShellSandbox extends Sandbox {}`,
    code: 'no-default-export',
    at: '1:1',
    fix: /export default class ShellSandbox/,
  },
  {
    name: 'an anonymous class (K9)',
    text: `${IMPORT}export default class extends Sandbox<Env> {}`,
    code: 'anonymous-class',
    at: '2:16',
    fix: /name/,
  },
  {
    name: 'an abstract class (K9)',
    text: `${IMPORT}export default abstract class X extends Sandbox {}`,
    code: 'abstract-class',
    at: '2:31',
    fix: /abstract/,
  },
  {
    name: 'two default exports',
    text: `${IMPORT}class A extends Sandbox {}\nexport default A\nexport { A as default }`,
    code: 'two-defaults',
    at: '4:10',
  },
  {
    name: 'another class',
    text: 'export default class X {}',
    code: 'not-a-sandbox',
    at: '1:16',
    fix: /extends Sandbox/,
  },
  {
    name: 'a Sandbox of another package',
    text: "import { Sandbox } from 'other'\nexport default class X extends Sandbox {}",
    code: 'foreign-base',
    at: '2:32',
    fix: /@cloudflare\/sandbox/,
  },
  {
    name: 'a local class called Sandbox',
    text: 'class Sandbox {}\nexport default class X extends Sandbox {}',
    code: 'not-a-sandbox',
    at: '1:1',
  },
  {
    name: 'a type-only import',
    text: "import type { Sandbox } from '@cloudflare/sandbox'\nexport default class X extends Sandbox {}",
    code: 'type-only',
    at: '1:15',
    fix: /import \{ Sandbox \}/,
  },
  {
    name: 'a mixin',
    text: `${IMPORT}export default class X extends logged(Sandbox) {}`,
    code: 'computed-class',
    at: '2:32',
  },
  {
    name: 'the class of the SDK itself',
    text: `${IMPORT}export default Sandbox`,
    code: 'not-a-subclass',
    at: '2:1',
  },
  { name: 'a function', text: 'export default function x() {}', code: 'computed-class', at: '1:16' },
  {
    name: 'a missing base file',
    text: "import { B } from './b'\nexport default class X extends B {}",
    code: 'missing-module',
    at: '2:32',
  },
  {
    name: 'a class that extends itself',
    text: 'export default class X extends X {}',
    code: 'cycle',
    at: '1:16',
  },
  {
    name: 'a static from the environment',
    text: sandbox('X', 'static image = process.env.IMAGE'),
    code: 'not-constant',
    at: '4:17',
    fix: /literal/,
  },
  {
    name: 'a static from a call in a template',
    text: sandbox('X', `static image = \`a:\${version()}\``),
    code: 'not-constant',
    at: '4:22',
  },
  {
    name: 'a static getter',
    text: sandbox('X', "static get image() { return 'a:1' }"),
    code: 'not-constant',
    at: '4:2',
  },
  {
    name: 'a static without a value',
    text: sandbox('X', 'static image: string'),
    code: 'not-constant',
    at: '4:2',
  },
  {
    name: 'a static block',
    text: sandbox('X', "static { this.image = 'a:1' }"),
    code: 'not-constant',
    at: '4:11',
  },
  {
    name: 'an assignment afterwards',
    text: `${sandbox('X')}X.maxInstances = 4\n`,
    code: 'not-constant',
    at: '4:1',
  },
  {
    name: 'a count below one',
    text: sandbox('X', 'static maxInstances = 0'),
    code: 'bad-static',
    at: '4:24',
    fix: /whole number/,
  },
  {
    name: 'a count as text',
    text: sandbox('X', "static maxInstances = '3'"),
    code: 'bad-static',
    at: '4:24',
  },
  { name: 'an empty image', text: sandbox('X', "static image = ''"), code: 'bad-static', at: '4:17' },
  {
    name: 'sqlite = false: read, and rejected (K6)',
    text: sandbox('X', 'static sqlite = false'),
    code: 'bad-static',
    at: '4:18',
    fix: /SQLite/,
  },
]

test.each(UNREADABLE)('rejects $name with its position', ({ text, code, at, fix, more = {} }) => {
  const { root } = project({ 'src/server/x.sandbox.ts': text, ...more })
  const { problems } = discover({ root })
  const [problem] = problems
  expect(problems).toHaveLength(1)
  expect(problem).toMatchObject({ severity: 'error', code })
  expect(`${problem?.place?.file}:${problem?.place?.line}:${problem?.place?.column}`).toBe(
    `src/server/x.sandbox.ts:${at}`,
  )
  if (fix) expect(problem?.fix).toMatch(fix)
})

const WORTH_A_WORD: { name: string; file?: string; text: string; code: string; fix: RegExp }[] = [
  {
    name: 'a mistyped static',
    text: sandbox('X', "static instance_type = 'basic'"),
    code: 'unknown-static',
    fix: /instanceType/,
  },
  {
    name: 'a forgotten static',
    text: sandbox('X', "image = 'a:1'"),
    code: 'not-static',
    fix: /static image/,
  },
  {
    name: 'an unknown instance type (K8)',
    text: sandbox('X', "static instanceType = 'huge'"),
    code: 'unknown-instance-type',
    fix: /standard-4/,
  },
  { name: 'a plural file name', file: 'x.sandboxes.ts', text: '', code: 'near-miss', fix: /x\.sandbox\.ts/ },
  { name: 'a JavaScript file', file: 'x.sandbox.js', text: '', code: 'near-miss', fix: /x\.sandbox\.ts/ },
]

test.each(WORTH_A_WORD)('warns about $name', ({ file = 'x.sandbox.ts', text, code, fix }) => {
  const { root } = project({ [`src/server/${file}`]: text })
  const { problems } = discover({ root })
  expect(problems).toMatchObject([{ severity: 'warning', code }])
  expect(problems[0]?.fix).toMatch(fix)
})
