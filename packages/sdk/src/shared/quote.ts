/** Quotes one argument for a POSIX shell, for vendors that accept only a shell line. The only place that quotes. */
export function quoteArg(arg: string): string {
  // A leading `=` is quoted: zsh would expand it to a program of that name.
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(arg)) return arg
  return `'${arg.replaceAll("'", `'\\''`)}'`
}

export function quoteArgs(args: readonly string[]): string {
  return args.map(quoteArg).join(' ')
}
