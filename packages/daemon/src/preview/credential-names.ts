/** Headers that carry the token of a port: ours and those of vendors with a front. */
export const tokenHeaders: readonly string[] = ['x-sandkasten-token', 'x-daytona-preview-token']
/** Query parameters that carry it. */
export const tokenQueries: readonly string[] = ['sandkasten_token', 'DAYTONA_SANDBOX_AUTH_KEY']

const cookie = 'sandkasten-preview'

/** `__Host-` binds the cookie to one host name over TLS, so other previews cannot set it. */
export function cookieName(secure: boolean): string {
  return secure ? `__Host-${cookie}` : cookie
}

/**
 * Whether a cookie, as the text `name=value`, could be taken for ours. Looks for the name anywhere in the text: parsers
 * disagree about quotes, commas, spaces and case, and `=name=value` is a cookie without a name that is sent as
 * `name=value`.
 */
export function isOurCookie(text: string): boolean {
  return text.toLowerCase().includes(cookie)
}
