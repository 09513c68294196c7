/** Accepted forms of a sandbox file (K9, K10). */
import { describe, expect, test } from 'vitest'
import { project, sandbox } from '../../test/project.ts'
import { discover } from './discover.ts'

const IMPORT = "import { Sandbox } from '@cloudflare/sandbox'\n"

interface Readable {
  name: string
  text: string
  className?: string
  statics?: { [name: string]: unknown }
  more?: { [file: string]: string }
}

const READABLE: Readable[] = [
  { name: 'the one-liner', text: `${IMPORT}export default class ShellSandbox extends Sandbox<Env> {}` },
  {
    name: 'an aliased import',
    text: "import { Sandbox as Base } from '@cloudflare/sandbox'\nexport default class ShellSandbox extends Base {}",
  },
  {
    name: 'a namespace import',
    text: "import * as sdk from '@cloudflare/sandbox'\nexport default class ShellSandbox extends sdk.Sandbox<Env> {}",
  },
  {
    name: 'export { X as default }',
    text: `${IMPORT}class ShellSandbox extends Sandbox<Env> {}\nexport { ShellSandbox as default }`,
  },
  {
    name: 'export default X',
    text: `${IMPORT}class ShellSandbox extends Sandbox {}\nexport default ShellSandbox`,
  },
  {
    name: 'a class expression',
    text: `${IMPORT}const ShellSandbox = class extends Sandbox<Env> {}\nexport default ShellSandbox`,
  },
  {
    name: 'a constant as base',
    text: `${IMPORT}const Base = Sandbox\nexport default class ShellSandbox extends Base {}`,
  },
  {
    name: 'casts and brackets',
    text: `${IMPORT}export default class ShellSandbox extends (Sandbox as any)<Env> {}`,
  },
  {
    name: 'generics with braces',
    text: `${IMPORT}export default class ShellSandbox extends Sandbox<{ A: string; B: { c: "}" } }> { static image = 'a:1' }`,
    statics: { image: 'a:1' },
  },
  {
    name: 'a decorator',
    text: `${IMPORT}@tagged({ class: 'Fake extends Sandbox' })\nexport default class ShellSandbox extends Sandbox<Env> {}`,
  },
  {
    name: 'a class in a comment and in strings',
    text: `${IMPORT}// export default class Old extends Sandbox { static image = 'old:1' }\n/* static image = 'older:1' */\nconst text = "export default class Text extends Sandbox {}"\nconst other = \`static image = 'x:1'\`\nexport default class ShellSandbox extends Sandbox<Env> {}`,
    statics: {},
  },
  {
    name: 'statics of another class in the file are ignored (K10)',
    text: `${IMPORT}class Other extends Sandbox { static image = 'other:1'; static maxInstances = 99 }\nexport default class ShellSandbox extends Sandbox<Env> { static instanceType = 'basic' }`,
    statics: { instanceType: 'basic' },
  },
  {
    name: 'statics in every spelling',
    text: `${IMPORT}const VERSION = '0.8.11'\nexport default class ShellSandbox extends Sandbox<Env> {\n  static readonly image = \`docker.io/cloudflare/sandbox:\${VERSION}\` as const\n  public static override 'instanceType' = ('standard-' + '2') satisfies string\n  static maxInstances: number =\n    // ten\n    1_0\n}`,
    statics: { image: 'docker.io/cloudflare/sandbox:0.8.11', instanceType: 'standard-2', maxInstances: 10 },
  },
  {
    name: 'an instance type as an object (K8)',
    text: `${IMPORT}export default class ShellSandbox extends Sandbox<Env> { static instanceType = { vcpu: 2, memoryMib: 4096, disk_mb: 8000 } }`,
    statics: { instanceType: { vcpu: 2, memory_mib: 4096, disk_mb: 8000 } },
  },
  ...['lite', 'basic', 'standard-1', 'standard-2', 'standard-3', 'standard-4', 'dev', 'standard'].map(
    (type) => ({
      name: `instance type ${type} (K8)`,
      text: sandbox('ShellSandbox', `static instanceType = '${type}'`),
      statics: { instanceType: type },
    }),
  ),
  {
    name: 'an imported base class, whose statics are inherited',
    text: "import { CompanySandbox } from '../base.js'\nexport default class ShellSandbox extends CompanySandbox { static image = 'own:1' }",
    more: {
      'src/base.ts': `${IMPORT}export class CompanySandbox extends Sandbox<Env> { static image = 'base:1'; static maxInstances = 3 }`,
    },
    statics: { image: 'own:1', maxInstances: 3 },
  },
  {
    name: 'a base through re-exports',
    text: "import Base from '../index'\nexport default class ShellSandbox extends Base {}",
    more: {
      'src/index.ts': "export { Company as default } from './all'",
      'src/all.ts': "export * from './company'",
      'src/company.ts': "export { Sandbox as Company } from '@cloudflare/sandbox'",
    },
  },
  {
    name: 'a class re-exported from elsewhere',
    text: "export { ShellSandbox as default } from '../impl.ts'",
    more: { 'src/impl.ts': `${IMPORT}export class ShellSandbox extends Sandbox<Env> {}` },
  },
  {
    name: 'letters of several bytes before the class',
    text: `// 😀 日本語\n${IMPORT}export default class ShellSandbox extends Sandbox<Env> { static image = 'a:1' }`,
    statics: { image: 'a:1' },
  },
]

describe.each(READABLE)('reads $name', ({ text, className = 'ShellSandbox', statics, more = {} }) => {
  test('without a word', () => {
    const { root } = project({ 'src/server/shell.sandbox.ts': text, ...more })
    const { sandboxes, problems } = discover({ root })
    expect(problems).toEqual([])
    expect(sandboxes.map((one) => one.className)).toEqual([className])
    if (!statics) return
    const values = Object.entries(sandboxes[0]!.statics).map(([name, located]) => [name, located.value])
    expect(Object.fromEntries(values)).toEqual(statics)
  })
})

test('searches subfolders but not node_modules and dot folders, and the folder can be chosen', () => {
  const { root } = project({
    'src/server/a/b/deep.sandbox.ts': sandbox('Deep'),
    'src/server/node_modules/x/bad.sandbox.ts': '{{',
    'src/server/.cache/bad.sandbox.ts': '{{',
    'app/other.sandbox.ts': sandbox('Other'),
  })
  expect(discover({ root }).sandboxes.map(({ file }) => file)).toEqual(['src/server/a/b/deep.sandbox.ts'])
  expect(discover({ root, dir: 'app' }).sandboxes.map(({ className }) => className)).toEqual(['Other'])
  expect(discover({ root, dir: 'nowhere' })).toEqual({ sandboxes: [], problems: [] })
})
