/** Text of an agent for a terminal: without escape sequences and characters that change the direction of the text. */
export function printable(text: string): string {
  return text
    .toWellFormed()
    .replaceAll('\r\n', '\n')
    .replace(/(?![\n\t])[\p{Cc}\u2028-\u202e\u2066-\u2069]/gu, '\ufffd')
}
