import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { NetworkChoice } from './network-choice.ts'

const mostBytes = 1_048_576

export function withNetworkOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--network <network>', 'none, open, or a file with a policy as JSON').argParser(
        parseNetwork,
      ),
    )
    .option(
      '--allow <rule>',
      'reach only this, such as github.com, *.npmjs.org, db.example.com:5432 or preset:github (repeatable)',
      collect,
    )
    .option('--deny <rule>', 'never reach this, whatever --allow says (repeatable)', collect)
    .option('--audit', 'allow and record what the policy would refuse, to learn which policy suffices')
}

function parseNetwork(text: string): NetworkChoice {
  if (text === 'none' || text === 'open') return text
  let content: string
  try {
    content = readFileSync(text, 'utf8')
  } catch {
    throw new InvalidArgumentError('Use none, open, or a file that exists.')
  }
  if (content.length > mostBytes) throw new InvalidArgumentError('The file is larger than 1 MiB.')
  let policy: unknown
  try {
    policy = JSON.parse(content)
  } catch {
    // The parser's message would quote the content.
  }
  if (
    policy === 'none' ||
    policy === 'open' ||
    (typeof policy === 'object' && policy !== null && !Array.isArray(policy))
  )
    return policy as NetworkChoice
  throw new InvalidArgumentError('The file has no policy: a JSON object such as {"allow": ["github.com"]}.')
}

function collect(text: string, before: readonly string[] = []): string[] {
  return [...before, text]
}
