import { expect, it } from 'vitest'
import { openNetwork, resolvConf } from './pasta.ts'

it('there is no resolver without a network', () => {
  expect(resolvConf('none', ['10.0.0.1'])).not.toContain('nameserver')
})

it('the resolvers are pasta’s, never the host’s own addresses', () => {
  expect(resolvConf('open', ['10.0.0.1', '127.0.0.53'])).toBe('nameserver 192.0.0.3\n')
  expect(resolvConf('open', ['10.0.0.1', 'fd00::1'])).toBe(
    'nameserver 192.0.0.3\nnameserver fd73:616e:646b::3\n',
  )
  expect(resolvConf('open', [])).toBe('')
})

it('pasta runs as the last id of the sandbox’s range and gets no information about the host', () => {
  const { argv, user, rules } = openNetwork({
    pasta: '/pasta',
    stage: '/stage',
    firstId: 0x10000000,
    ids: 65536,
    nameservers: ['10.0.0.1'],
    open: {},
  })
  expect(user).toBe(0x1000ffff)
  expect(argv).not.toContain('--runas')
  expect(argv).toEqual(expect.arrayContaining(['--no-map-gw', '--netns', '/stage/network']))
  expect(argv.join(' ')).not.toContain('10.0.0.1')
  expect(rules).toContain('accept 192.0.0.3/32 53')
})
