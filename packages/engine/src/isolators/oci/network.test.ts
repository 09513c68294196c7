import { expect, it } from 'vitest'
import { pastaArgv, resolvConf } from './network.ts'

it('no resolver without a network', () => {
  expect(resolvConf('none', ['10.0.0.1'])).not.toContain('nameserver')
})

it('the host’s resolvers, and pasta in place of one on its loopback', () => {
  expect(resolvConf('open', ['10.0.0.1', 'fd00::1'])).toBe('nameserver 10.0.0.1\nnameserver fd00::1\n')
  expect(pastaArgv('/pasta', ['10.0.0.1'])).not.toContain('--dns-forward')
  const conf = resolvConf('open', ['127.0.0.53', '10.0.0.1'])
  expect(conf).toBe('nameserver 169.254.53.53\nnameserver 10.0.0.1\n')
  expect(pastaArgv('/pasta', ['127.0.0.53'])).toEqual(
    expect.arrayContaining(['--dns-forward', '169.254.53.53']),
  )
})
