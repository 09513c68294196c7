/**
 * The environment variables of a sandbox, as `NAME=value`: our defaults, then the sources in order; later ones override
 * earlier ones. The provider adds the variables of a single command. Variables of this process never enter.
 */
export function environmentOf(
  sources: ReadonlyArray<Readonly<Record<string, string>> | undefined>,
  { imageSetsPath = false } = {},
): string[] {
  const all: Record<string, string> = {
    ...(imageSetsPath ? {} : { PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' }),
    LANG: 'C.UTF-8',
  }
  return Object.entries(Object.assign(all, ...sources)).map(([name, value]) => `${name}=${value}`)
}
