/** One argument for a POSIX shell, for vendors that take only a shell line. The only place where we quote. */
export function quoteArg(arg: string): string {
  // Not with `=` at its beginning: zsh would look for a program of that name.
  if (/^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$/.test(arg)) return arg
  return `'${arg.replaceAll("'", `'\\''`)}'`
}

export function quoteArgs(args: readonly string[]): string {
  return args.map(quoteArg).join(' ')
}
