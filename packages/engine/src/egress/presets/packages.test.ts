import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { packageRules, ruleOf } from './packages.ts'

const folder = mkdtempSync(path.join(tmpdir(), 'sandkasten-packages-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('ruleOf', () => {
  it.each([
    ['https://npm.example/path/', { host: 'npm.example', ports: [443], protocol: 'tls' }],
    ['http://Pip.Example./simple', { host: 'pip.example', ports: [80], protocol: 'http' }],
    ['https://user:word@go.example:8443', { host: 'go.example', ports: [8443], protocol: 'tls' }],
    ['http://192.0.2.7:4873/', { cidr: '192.0.2.7/32', ports: [4873] }],
    ['https://[2001:db8::7]/', { cidr: '2001:db8::7/128', ports: [443] }],
    ['file:///srv/packages', undefined],
    ['direct', undefined],
    ['https://*/', undefined],
  ])('%s', (url, rule) => {
    expect(ruleOf(url)).toEqual(rule)
  })
})

describe('packageRules', () => {
  const bin = path.join(folder, 'bin')
  const cargo = path.join(folder, 'cargo')

  it('asks the programs of the machine, and takes nothing of its own', async () => {
    mkdirSync(bin)
    mkdirSync(cargo)
    script(
      'npm',
      `echo '{"registry":"https://npm.example/","@a:registry":"https://scope.example:444/","x":"y"}'`,
    )
    script('go', `echo '{"GOPROXY":"https://go.example,direct","GOSUMDB":"sum.example"}'`)
    script('python3', `echo "global.index-url='https://pip.example/simple'"`)
    writeFileSync(
      path.join(cargo, 'config.toml'),
      '[source.mirror]\nregistry = "sparse+https://crates.example/index/"\n',
    )
    const rules = await packageRules({ PATH: `${bin}:/usr/bin:/bin`, CARGO_HOME: cargo })
    const hosts = rules.map((rule) => ('host' in rule ? `${rule.host}:${rule.ports}` : ''))
    expect(hosts).toEqual(
      expect.arrayContaining([
        'npm.example:443',
        'scope.example:444',
        'go.example:443',
        'sum.example:443',
        'pip.example:443',
        'crates.example:443',
      ]),
    )
  })

  it('reads the configuration of the real programs', { timeout: 60_000 }, async () => {
    const files = {
      npm_config_userconfig: 'registry=https://real-npm.example/\n@b:registry=https://real-scope.example/\n',
      PIP_CONFIG_FILE:
        '[global]\nindex-url = https://pip.real.example/simple\nextra-index-url = https://more.real.example:8443/\n',
      GOENV: 'GOPROXY=https://go.real.example,direct\nGOSUMDB=off\n',
    }
    const env: Record<string, string> = { PATH: process.env.PATH!, HOME: folder, CARGO_HOME: cargo }
    for (const [variable, text] of Object.entries(files)) {
      env[variable] = path.join(folder, variable)
      writeFileSync(env[variable], text)
    }
    const rules = await packageRules(env)
    const hosts = rules.map((rule) => ('host' in rule ? `${rule.host}:${rule.ports}` : ''))
    const expected = ['real-npm.example:443', 'real-scope.example:443', 'crates.example:443']
    if (works('python3', ['-m', 'pip', '--version']))
      expected.push('pip.real.example:443', 'more.real.example:8443')
    if (works('go', ['version'])) expected.push('go.real.example:443')
    expect(hosts).toEqual(expect.arrayContaining(expected))
  })

  it('a program that is absent or fails adds nothing', async () => {
    for (const name of ['npm', 'go', 'python3']) script(name, 'exit 1')
    const rules = await packageRules({ PATH: bin, CARGO_HOME: folder })
    expect(JSON.stringify(rules)).not.toContain('example')
  })

  const works = (program: string, args: readonly string[]) => spawnSync(program, args).status === 0

  function script(name: string, line: string): void {
    writeFileSync(path.join(bin, name), `#!/bin/sh\n${line}\n`)
    chmodSync(path.join(bin, name), 0o755)
  }
})
