import { expect, it } from 'vitest'
import { ReachedTargets } from './learned.ts'

const event = (host: string | null, port: number | null, more: object = {}) => ({
  kind: 'tls',
  verdict: 'audit',
  host,
  address: '198.51.100.7',
  port,
  ...more,
})

it('makes rules for exactly what was reached', () => {
  const targets = new ReachedTargets()
  targets.add(event('b.example', 443))
  targets.add(event('b.example', 80, { kind: 'http', verdict: 'allowed' }))
  targets.add(event('a.example', 22, { kind: 'tcp' }))
  targets.add(event('a.example', 443))
  targets.add(event(null, 5432, { kind: 'tcp' }))
  targets.add(event(null, 443, { address: '2001:db8::7' }))
  targets.add(event('model.sandkasten.internal', 80))
  targets.add(event('denied.example', 443, { verdict: 'denied' }))
  targets.add(event('failed.example', 443, { verdict: 'error' }))
  targets.add(event('asked.example', 53, { kind: 'dns' }))
  targets.add(event('ping.example', null, { kind: 'icmp' }))
  expect(targets.rules()).toEqual([
    { cidr: '198.51.100.7/32', ports: [5432] },
    { cidr: '2001:db8::7/128', ports: [443] },
    { host: 'a.example', ports: [22, 443] },
    { host: 'b.example' },
  ])
  expect([targets.hasService('model'), targets.hasService('other')]).toEqual([true, false])
})

it('remembers as many targets as a policy may have rules, and copies keep theirs', () => {
  const targets = new ReachedTargets()
  for (let at = 0; at < 1200; at += 1) targets.add(event(`h${at}.example`, 443))
  expect(targets.rules()).toHaveLength(1000)
  const copy = new ReachedTargets().copy()
  copy.add(event('a.example', 443))
  expect(copy.rules()).toEqual([{ host: 'a.example' }])
})
