/** One argument for a POSIX shell, for vendors that take only a shell line. The only place where we quote. */
export function quoteArg(arg: string): string {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(arg)) return arg
  return `'${arg.replaceAll("'", `'\\''`)}'`
}

export function quoteArgs(args: readonly string[]): string {
  return args.map(quoteArg).join(' ')
}
