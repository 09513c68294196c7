/** The certificate authority of the world, and one certificate for all its servers. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CERTIFIED } from './names.ts'

export interface Authority {
  /** PEM files. */
  readonly ca: string
  readonly key: string
  readonly certificate: string
  /** This machine’s trusted certificates and the world’s own. */
  readonly bundle: string
}

const SYSTEM_BUNDLE = '/etc/ssl/certs/ca-certificates.crt'

export function createAuthority(folder: string): Authority {
  const file = (name: string) => join(folder, name)
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'] as const
  const isCa = [
    '-addext',
    'basicConstraints=critical,CA:TRUE',
    '-addext',
    'keyUsage=critical,keyCertSign',
  ] as const
  openssl(
    ...['req', '-x509', ...newKey, '-days', '2', '-subj', '/CN=The world of the egress tests', ...isCa],
    ...['-keyout', file('ca.key'), '-out', file('ca.pem')],
  )
  openssl(
    ...[
      'req',
      '-x509',
      ...newKey,
      '-days',
      '2',
      '-subj',
      '/CN=world',
      '-CA',
      file('ca.pem'),
      '-CAkey',
      file('ca.key'),
    ],
    ...['-addext', 'basicConstraints=critical,CA:FALSE', '-addext', 'extendedKeyUsage=serverAuth'],
    ...['-addext', `subjectAltName=${CERTIFIED.map((name) => `DNS:${name}`).join(',')}`],
    ...['-keyout', file('server.key'), '-out', file('server.pem')],
  )
  writeFileSync(
    file('bundle.pem'),
    Buffer.concat([readFileSync(SYSTEM_BUNDLE), readFileSync(file('ca.pem'))]),
  )
  return {
    ca: file('ca.pem'),
    key: file('server.key'),
    certificate: file('server.pem'),
    bundle: file('bundle.pem'),
  }
}
