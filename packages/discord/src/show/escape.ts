/**
 * Texts of agents, repositories and users are hostile. In a message of the bot they must not mention anyone, look like
 * one of the bot’s own lines, or change how those lines are shown. The bot’s own lines begin with `-# ` (Discord’s small
 * text), and no other text can have such a line.
 */

/** Has no width. Unlike a backslash, it cannot be cancelled by another one before it. */
const gap = '\u200b'

/** Text of one line without any formatting: titles, names, paths, errors. */
export function plain(text: string, max = 200): string {
  const line = printable(text).replace(/\s+/g, ' ').trim()
  return shortened(line, max)
    .replaceAll('`', '’')
    .replace(/[\\*_~|<>[\]]/g, '\\$&')
    .replace(/@/g, `@${gap}`)
    .replace(/:\/\//g, `:${gap}//`)
}

/** Markdown outside of code. Keeps formatting; removes what mentions, imitates or hides. */
export function prose(text: string): string {
  return text
    .replace(/\\`/g, '’')
    .split(/((?<!`)`(?!`)[^`\n]+`(?!`)|(?<!`)``(?!`)(?:[^`\n]|`(?!`))+``(?!`))/)
    .map((part, at) => (at % 2 === 1 ? part : outsideCode(part)))
    .join('')
}

/** The inside of a code block: Discord ends it at the first three backticks, wherever they are. */
export function insideCode(text: string): string {
  return printable(text).replace(/`(?=``)/g, `\`${gap}`)
}

/** A code block of the whole text. `language` is a name such as `diff`. */
export function codeBlock(text: string, language = ''): string {
  const name = /^[a-z0-9_+#.-]{1,20}$/i.test(language) ? language : ''
  return `\`\`\`${name}\n${insideCode(text)}\n\`\`\``
}

/** Without characters that are not shown or that change the direction of others. */
export function printable(text: string): string {
  return (
    text
      .toWellFormed()
      .replace(/\r\n?|[\u2028\u2029\u0085]/g, '\n')
      // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what this removes.
      .replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, '')
  )
}

/** At most `max` UTF-16 units, never half of a character. */
export function shortened(text: string, max: number): string {
  if (text.length <= max) return text
  return `${text.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

function outsideCode(text: string): string {
  return (
    text
      .replaceAll('`', '’')
      // A link shows where it leads.
      .replace(/!?\[([^\]\n]*)\]\(\s*<?(https?:[^)>\s]+)>?[^)\n]*\)/gi, (_, label, url) =>
        label === url || label === '' ? `${url}` : `${label} (${url})`,
      )
      .replace(/-(?=#)/g, `-${gap}`)
      .replace(/@/g, `@${gap}`)
      // Users, roles, channels, commands, emojis, times. Links in angle brackets stay.
      .replace(/<(?=[@#/:&]|a:|t:|id:)/gi, `<${gap}`)
      // A quote of this kind would contain everything after it.
      .replace(/>(?=>>)/g, `>${gap}`)
  )
}
