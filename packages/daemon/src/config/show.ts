import { stringify } from 'yaml'
import type { DaemonConfig } from './config.ts'

/** The effective configuration in the shape of the file, without secrets. */
export function maskedConfig(config: DaemonConfig): Record<string, unknown> {
  const { file: _, listen, preview_listen: previews, fronts, ...rest } = config
  return {
    listen: addressText(listen),
    preview_listen: previews ? addressText(previews) : 'off',
    ...rest,
    fronts: Object.fromEntries(
      Object.entries(fronts).map(([name, front]) => [name, { ...front, listen: addressText(front.listen) }]),
    ),
    jwt: config.jwt && { ...config.jwt, secret: config.jwt.secret === undefined ? undefined : '********' },
    api_key: config.api_key === undefined ? undefined : '********',
    db_url: config.db_url === undefined ? undefined : maskUrl(config.db_url),
  }
}

export function showConfig(config: DaemonConfig): string {
  const from = config.file
    ? `# from ${config.file} and the environment`
    : '# from the environment and defaults'
  return `${from}\n${stringify(maskedConfig(config))}`
}

function addressText({ host, port }: DaemonConfig['listen']): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`
}

function maskUrl(text: string): string {
  try {
    const url = new URL(text)
    if (url.password) url.password = '********'
    if (url.searchParams.has('password')) url.searchParams.set('password', '********')
    return url.href
  } catch {
    return '********'
  }
}
