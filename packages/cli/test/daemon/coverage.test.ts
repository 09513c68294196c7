import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { inProcess, key, sandkasten, start, testDaemon } from '../helper.ts'
import { recorder } from './recorder.ts'

interface Schema {
  $ref?: string
  properties?: Record<string, Schema>
  anyOf?: Schema[]
}
interface Operation {
  operationId: string
  parameters?: Array<{ in: string; name: string }>
  requestBody?: { content: Record<string, { schema: Schema }> }
}

const root = path.resolve(import.meta.dirname, '../../../..')
const document: {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
} = JSON.parse(readFileSync(path.join(root, 'protocol/http.openapi.json'), 'utf8'))

/** Everything that a caller may send: `operation`, `operation?query`, `operation.field`, `operation.field.inner`. */
function allOf(operation: Operation): string[] {
  const fields = (schema: Schema | undefined, prefix: string): string[] => {
    if (!schema) return []
    if (schema.$ref) return fields(document.components.schemas[schema.$ref.split('/').at(-1)!], prefix)
    const inner = (schema.anyOf ?? []).flatMap((one) => fields(one, prefix))
    const own = Object.entries(schema.properties ?? {}).flatMap(([name, value]) => {
      const below = fields(value, `${prefix}.${name}`)
      return below.length > 0 ? below : [`${prefix}.${name}`]
    })
    return [...inner, ...own]
  }
  const { operationId: id, parameters = [], requestBody } = operation
  return [
    id,
    ...parameters.filter((one) => one.in === 'query').map(({ name }) => `${id}?${name}`),
    ...fields(requestBody?.content['application/json']?.schema, id),
  ]
}

const everything = Object.values(document.paths).flatMap((methods) => Object.values(methods).flatMap(allOf))

const leftOut: Record<string, string> = {
  openapi: 'a document for programs',
  healthz: 'status uses readyz, which reports more',
  sessionEvents: 'logs and events use /v1/events with session_id, which also has pages',
  'sessionEvents?after': 'as above',
  fsRead: 'JSON for small files; cp streams files of any size',
  'fsRead?path': 'as above',
  'fsRead?max_bytes': 'as above',
  fsWrite: 'like fsRead; cp and files write stream',
  'fsWrite.path': 'as above',
  'fsWrite.content': 'as above',
  'fsWrite.content_base64': 'as above',
  'fsWrite.mode': 'as above',
  getTerminal: 'shell uses it after a lost connection; shell --list shows all terminals',
  resizeTerminal: 'shell resizes over its WebSocket',
  'resizeTerminal.cols': 'as above',
  'resizeTerminal.rows': 'as above',
  'createSession.network_mode': 'network says the same',
  'egress?follow': 'sent after the pages; networks-oci.test.ts follows',
  'run.stream': 'a detached command is read with logs',
  'run.hold': 'needs stream',
  'run.output': 'logs prints both streams of a detached command in their order of arrival',
  'run.stdin': 'commands write streams it',
  'run.stdin_base64': 'commands write streams it',
  'listSessions?cursor': 'sent for the second page of 1000; all pages are read',
  'listSnapshots?cursor': 'as above',
  'listVolumes?cursor': 'as above',
}

const policy = {
  allow: ['a.example'],
  transform: [
    { match: { host: 'a.example', method: 'GET' }, headers: { authorization: { secret: 'token' } } },
  ],
  services: ['model'],
  audit: true,
  limits: { connections: 1, bytes: 2, bytesPerSecond: 3 },
}

function note(seen: Set<string>, method: string, url: string, body: Buffer): void {
  const { pathname, searchParams } = new URL(url, 'http://x')
  const [, methods] = Object.entries(document.paths)
    .filter(([template]) => new RegExp(`^${template.replace(/\{\w+\}/g, '[^/]+')}$`).test(pathname))
    .sort(([a], [b]) => a.split('{').length - b.split('{').length)[0]!
  const operation = methods[method.toLowerCase()]!
  const id = operation.operationId
  seen.add(id)
  for (const name of searchParams.keys()) seen.add(`${id}?${name}`)
  if (!operation.requestBody?.content['application/json'] || body.length === 0) return
  const walk = (value: unknown, at: string): void => {
    if (value === null || typeof value !== 'object' || Array.isArray(value) || everything.includes(at))
      seen.add(at)
    else for (const [name, inner] of Object.entries(value)) walk(inner, `${at}.${name}`)
  }
  for (const [name, value] of Object.entries(JSON.parse(body.toString()))) walk(value, `${id}.${name}`)
}

describe('the command line', () => {
  let at: Awaited<ReturnType<typeof testDaemon>>
  let proxy: Awaited<ReturnType<typeof recorder>>
  const seen = new Set<string>()
  beforeAll(async () => {
    at = await testDaemon({ allowed_networks: ['none', 'open', 'policy'] })
    proxy = await recorder(at.daemon.url, (method, url, body) => note(seen, method, url, body))
  })
  afterAll(async () => {
    proxy?.close()
    await at?.close()
  })

  it('uses every operation of the API with every field, or lists the reason', async () => {
    const env = { SANDKASTEN_URL: proxy.url, SANDKASTEN_API_KEY: key, SECRET: 'x' }
    const failures: string[] = []
    const run = async (
      line: string,
      { input, refused = false }: { input?: string; refused?: boolean } = {},
    ) => {
      const args = [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, word]) => quoted ?? word!)
      const ran = await (input === undefined ? inProcess(args, env) : sandkasten(args, env, { input }))
      if ((ran.code === 0) === refused) failures.push(`${line}: ${ran.code} ${ran.stderr}`)
      return ran.stdout.trim()
    }
    const s = await run(
      'sessions create --name main --image host --ttl 30m --on-idle stop --lifetime 2h --on-lifetime destroy --wake-on-use --label a=b -e A=1 --idempotency-key once',
    )
    // Limits and networks need an isolator; this test only examines the request.
    await run('sessions create -m 512m --cpus 1 --pids 64 --disk 100m --network open', { refused: true })
    const file = path.join(at.home, 'policy.json')
    writeFileSync(file, JSON.stringify(policy))
    await run(`sessions create --network ${file} --allow b.example --deny c.example`, { refused: true })
    await run('secrets set token --host api.example.com', { input: 'a-value\n' })
    await run('secrets set token --value a-value')
    await run('secrets list')
    await run('secrets rotate-key')
    await run('secrets remove token')
    await run('sessions create --user root --tmp memory --runtime node24', { refused: true })
    // So do volumes.
    await run('sessions create --volume data:/data:ro', { refused: true })
    await run('volumes create data --size 100m', { refused: true })
    await run('volumes list')
    await run('volumes show data', { refused: true })
    await run('volumes delete data', { refused: true })
    await run('sessions list --all --name main --subject me --label a=b --status running')
    await run('sessions list')
    await run(`sessions get ${s}`)
    await run(`sessions label ${s} c=d a-`)
    await run(`sessions extend ${s} 1h`)
    await run(`sessions stats ${s}`, { refused: true })
    // No isolation, so no policies.
    await run(`sessions network ${s}`)
    await run(`sessions network ${s} --network ${file} --allow b.example --deny c.example`, { refused: true })
    await run(`sessions egress ${s} --after 1 --limit 5 --denied`, { refused: true })
    await run(`sessions egress ${s} --policy`, { refused: true })
    await run(`sessions fork ${s} --count 1`)
    await run(`sessions pause ${s}`, { refused: true })
    await run(`sessions resume ${s}`)
    await run(`sessions stop ${s}`)
    await run(`sessions start ${s}`)
    await run(`exec --no-stdin --shell main --timeout 30s --max-output 1m --id first ${s} -- 'echo hi'`)
    await run(`exec -d --id fed --stdin --timeout 1h -e B=2 -w . --max-output 1m --buffer 1m ${s} -- cat`)
    await run(`commands write ${s} fed --eof`, { input: 'fed\n' })
    await run(`commands list ${s} --limit 10`)
    await run(`commands get ${s} fed --wait 10s`)
    await run(`commands kill ${s} fed -s TERM`)
    await run(`logs ${s} fed --after 0`)
    await run(`shells open ${s} second -w . -e C=3 --no-login`)
    await run(`shells list ${s}`)
    await run(`shells close ${s} second`)
    await run(`shell ${s} --terminal term -w . -e D=4 -- sh -c true`, { input: '' })
    await run(`shell ${s} --list`)
    await run(`shell ${s} --kill term`)
    await run(`files mkdir ${s} d/e -p --mode 755`)
    await run(`files write ${s} d/f --mode 600`, { input: 'one' })
    await run(`files write ${s} d/f --append`, { input: 'two' })
    await run(`cp ${s}:d/f -`)
    await run(`files stat ${s} d/f --follow`)
    await run(`files chmod ${s} 644 d/f`)
    await run(`files link ${s} f d/l`)
    await run(`files move ${s} d/f d/g`)
    await run(`files list ${s} d -r`)
    await run(`files pack ${s} d`)
    await run(`files unpack ${s} d --gzip`, { input: 'not an archive', refused: true })
    await run(`files remove ${s} d -r -f`)
    await run(`ports open ${s} 3000 --visibility token --wake --rotate`)
    await run(`ports list ${s}`)
    await run(`ports get ${s} 3000`)
    await run(`ports link ${s} 3000 --expires 10m --path /x`)
    await run(`ports close ${s} 3000`)
    await run(`snapshot create ${s} --name saved`)
    await run(`snapshot list --session ${s}`)
    await run('snapshot get saved')
    await run('sessions create --snapshot saved')
    await run('snapshot delete saved')
    const keyId = JSON.parse(await run('keys create k --scope read --project default --expires 1d --json')).id
    await run('keys list --project default')
    await run(`keys revoke ${keyId} --project default`)
    const project = await run(
      'projects create p --sessions 5 --cpus 2 -m 1g --disk 10g --snapshots 5 --snapshot-disk 10g --volumes 5 --volume-disk 10g',
    )
    await run('projects list')
    await run(
      `projects quotas ${project} --sessions 1 --cpus 2 -m 1g --disk 10g --snapshots 5 --snapshot-disk 10g --volumes 5 --volume-disk 10g`,
    )
    await run(
      `projects policy set ${project} --image 'python:*' node --network none open --host '*.example.com' --service model --cpus 2 -m 1g --pids 64 --disk 1g --max-ttl 1h --max-lifetime 1d --pool host`,
    )
    await run(`projects policy get ${project}`)
    await run(`projects policy set ${project} --no-pool`)
    await run(`projects policy set ${project}`, { refused: true })
    await run(`projects policy set ${project} --clear`)
    await run(`events --session ${s} --after 0 --limit 10`)
    await run('audit --before 100000 --limit 10')
    await run('metrics')
    await run('status')
    const watching = start(['files', 'watch', s, '.', '-r'], env)
    await expect.poll(() => seen.has('watchFiles')).toBe(true)
    watching.kill()
    await once(watching, 'exit')
    await run(`sessions destroy ${s}`)
    expect(failures).toEqual([])

    expect(everything.filter((what) => !seen.has(what) && !(what in leftOut))).toEqual([])
    // Fails when a listed reason is no longer needed.
    const stale = Object.keys(leftOut).filter((what) => !everything.includes(what))
    expect(stale).toEqual([])
    const sent = Object.keys(leftOut).filter((what) => seen.has(what))
    expect(sent).toEqual([])
  }, 240_000)
})
