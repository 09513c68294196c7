/**
 * The files of the machine's `/etc` that a sandbox of the image `host` sees: those that programs below `/usr` need,
 * and none that may contain a secret. Left out on purpose: passwd, shadow, group, hosts, fstab, environment,
 * profile.d, gitconfig, pip.conf, npmrc, wgetrc, ssh, ssl/private, apt, cron, default, init.d, pam.d, security,
 * sudoers, systemd, subuid, machine-id.
 */
// biome-ignore format: a list to read
export const ETC_FILES: readonly string[] = [
  // the loader and the names of programs
  'ld.so.cache', 'ld.so.conf', 'ld.so.conf.d', 'alternatives',
  // certificates, but no keys
  'ssl/openssl.cnf', 'ssl/certs', 'ca-certificates', 'ca-certificates.conf', 'pki/tls/certs', 'pki/ca-trust/extracted',
  // place and time
  'localtime', 'timezone', 'locale.alias', 'locale.conf', 'os-release', 'debian_version', 'lsb-release',
  // names of things
  'services', 'protocols', 'rpc', 'ethertypes', 'networks', 'netconfig', 'host.conf', 'gai.conf', 'mime.types', 'magic', 'magic.mime', 'shells',
  'terminfo', 'inputrc', 'bash.bashrc', 'xattr.conf', 'login.defs', 'bindresvport.blacklist',
  // languages and tools whose own configuration sits here
  'python3', 'python3.9', 'python3.10', 'python3.11', 'python3.12', 'python3.13', 'python3.14', 'perl', 'fonts', 'sgml', 'xml', 'groff', 'manpath.config',
  'java-17-openjdk', 'java-21-openjdk', 'java-25-openjdk', 'ImageMagick-6', 'ImageMagick-7', 'gprofng.rc', 'vim',
]

/** The default name of the sandbox's user (1000). */
const SANDBOX_ACCOUNT = 'sandbox'

export function passwdOf(account: string): string {
  return `root:x:0:0:root:/root:/bin/bash
${account}:x:1000:1000:${account}:/home/${account}:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
`
}

export const etcPasswd = passwdOf(SANDBOX_ACCOUNT)

/**
 * The groups that mark a command's processes for the runner (`runner/src/mark.rs`). They have names only because
 * `groups` and `id -Gn` fail on a number without a name.
 */
export const MARKS = { first: 40_000, count: 1024 }

export function groupOf(account: string): string {
  return `root:x:0:
tty:x:5:
users:x:100:
${account}:x:1000:
nogroup:x:65534:
${Array.from({ length: MARKS.count }, (_, index) => `cmd${MARKS.first + index}:x:${MARKS.first + index}:\n`).join('')}`
}

export const etcGroup = groupOf(SANDBOX_ACCOUNT)

export const etcProfile = `export PATH="\${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}"
[ -n "\${BASH_VERSION-}" ] && [ -r /etc/bash.bashrc ] && . /etc/bash.bashrc
`

export const NSSWITCH = `passwd: files
group: files
hosts: files dns
networks: files
protocols: files
services: files
`
