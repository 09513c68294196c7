/** Wrangler configs in various styles. Each is synced with one sandbox file, `shell.sandbox.ts`. */

export interface Specimen {
  name: string
  text: string
  /** The expected tag of the new class; undefined if no migration is needed. */
  tag: string | undefined
}

const lines = (...all: string[]) => `${all.join('\n')}\n`

const commented = lines(
  '// The Worker of the support desk. Ask ops before touching routes.',
  '{',
  '  "$schema": "node_modules/wrangler/config-schema.json", // for editors',
  '  "name": "desk", /* also the subdomain */',
  '  "main": "src/index.ts",',
  '  "compatibility_date": "2026-01-01",',
  '  // "workers_dev": false,',
  '  "vars": { "LEVEL": "info" /* or "debug" */ }, // see docs/levels.md',
  '  "durable_objects": {',
  '    // hand-written, do not sort',
  '    "bindings": [',
  '      { "name": "ROOM", "class_name": "Room" }, // chat',
  '      { "name": "LIMITER", "class_name": "Limiter" } // rate limits',
  '      // { "name": "OLD", "class_name": "Old" }',
  '    ]',
  '  },',
  '  "migrations": [',
  '    { "tag": "v1", "new_sqlite_classes": ["Room"] }, // 2024',
  '    { "tag": "v2", "new_classes": ["Limiter"] } // 2025',
  '  ] // append only',
  '  // the end',
  '}',
  '// really',
)

const twelve = Array.from(
  { length: 12 },
  (_, index) => `\t\t{ "tag": "v${index + 1}", "new_sqlite_classes": ["C${index + 1}"] }`,
)

export const CORPUS: Specimen[] = [
  { name: 'an empty object', text: '{}\n', tag: 'v1' },
  { name: 'an empty file', text: '', tag: 'v1' },
  { name: 'only a comment', text: '// to be filled in\n', tag: 'v1' },
  { name: 'comments everywhere', text: commented, tag: 'v3' },
  { name: 'CRLF', text: commented.replaceAll('\n', '\r\n'), tag: 'v3' },
  { name: 'a byte order mark', text: `\ufeff${commented}`, tag: 'v3' },
  { name: 'tabs', text: commented.replaceAll('  ', '\t'), tag: 'v3' },
  { name: 'four spaces', text: commented.replaceAll('  ', '    '), tag: 'v3' },
  {
    name: 'trailing commas (K2)',
    text: lines(
      '{',
      '  "name": "desk",',
      '  "containers": [',
      '    { "name": "web", "class_name": "Web", "image": "./web.Dockerfile", "max_instances": 3, }, // ours?',
      '  ],',
      '  "durable_objects": { "bindings": [{ "name": "WEB", "class_name": "Web", },], },',
      '  "migrations": [',
      '    { "tag": "v1", "new_sqlite_classes": ["Web",], },',
      '  ],',
      '}',
    ),
    tag: 'v2',
  },
  { name: 'migrations v1 to v12', text: `{\n\t"migrations": [\n${twelve.join(',\n')}\n\t]\n}\n`, tag: 'v13' },
  {
    name: 'dated migrations (K15)',
    text: lines(
      '{',
      '  "migrations": [',
      '    { "tag": "2024-01-01", "new_sqlite_classes": ["A"] }',
      '  ]',
      '}',
    ),
    tag: '2026-03-04',
  },
  {
    name: 'numbered migrations with words',
    text: lines(
      '{',
      '  "migrations": [{',
      '    "tag": "0007_add_rooms",',
      '    "new_classes": ["Room"]',
      '  }]',
      '}',
    ),
    tag: '0008_shell-sandbox',
  },
  {
    name: 'an environment',
    text: lines(
      '{',
      '  "name": "desk",',
      '  "env": {',
      '    "production": {',
      '      "vars": { "LEVEL": "warn" },',
      '      "durable_objects": { "bindings": [{ "name": "ROOM", "class_name": "Room" }] }',
      '    }',
      '  },',
      '  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Room"] }]',
      '}',
    ),
    tag: 'v2',
  },
  {
    name: 'the class is covered by a rename (K5)',
    text: lines(
      '{',
      '  "migrations": [',
      '    { "tag": "v1", "new_sqlite_classes": ["OldShell"] },',
      '    { "tag": "v2", "renamed_classes": [{ "from": "OldShell", "to": "ShellSandbox" }] }',
      '  ]',
      '}',
    ),
    tag: undefined,
  },
  {
    name: 'the class is covered by a transfer (K5)',
    text: lines(
      '{ "migrations": [',
      '  { "tag": "v1", "transferred_classes": [{ "from": "S", "from_script": "other", "to": "ShellSandbox" }] }',
      '] }',
    ),
    tag: undefined,
  },
  {
    name: 'empty arrays, some with comments',
    text: lines(
      '{',
      '  "containers": [],',
      '  "durable_objects": { "bindings": [ /* none yet */ ] },',
      '  "migrations": [',
      '    // none yet',
      '  ]',
      '}',
    ),
    tag: 'v1',
  },
  { name: 'one line', text: '{"name":"desk","vars":{"A":"1"}}', tag: 'v1' },
  {
    name: 'strings that look like syntax',
    text: lines(
      '{',
      '\t"vars": { "A": "// no comment", "B": "}]", "C": "\\"containers\\": [", "D": "/* */" }',
      '}',
    ),
    tag: 'v1',
  },
  {
    name: 'hugging brackets and blank lines',
    text: lines(
      '{',
      '',
      '  "durable_objects": {',
      '    "bindings": [{',
      '      "name": "ROOM",',
      '      "class_name": "Room"',
      '    }]',
      '  },',
      '',
      '  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Room"] }]',
      '',
      '}',
      '',
      '',
    ),
    tag: 'v2',
  },
]

/** Texts that must be rejected, and the position that the error must have. */
export const BROKEN: { name: string; text: string; line: number; column: number }[] = [
  { name: 'a missing comma', text: '{\n  "name": "desk"\n  "main": "x"\n}\n', line: 3, column: 3 },
  { name: 'a missing bracket', text: '{\n  "containers": [\n', line: 3, column: 1 },
  { name: 'an open string', text: '{\n  "name": "desk\n}\n', line: 2, column: 11 },
  {
    name: 'a merge conflict',
    text: '{\n<<<<<<< HEAD\n  "name": "a"\n=======\n  "name": "b"\n>>>>>>> x\n}\n',
    line: 2,
    column: 1,
  },
  { name: 'an array', text: '[]\n', line: 1, column: 1 },
  {
    name: 'a key written twice',
    text: '{\n  "containers": [],\n  "containers": []\n}\n',
    line: 3,
    column: 3,
  },
  { name: 'containers as an object', text: '{\n  "containers": {}\n}\n', line: 2, column: 3 },
  { name: 'bindings as an object', text: '{ "durable_objects": { "bindings": {} } }', line: 1, column: 24 },
]
