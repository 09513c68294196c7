import { readClaudeLine } from '../run/claude.ts'
import type { Agent } from './agent.ts'

export const claude: Agent = {
  name: 'claude',
  title: 'Claude Code',
  package: '@anthropic-ai/claude-code',
  version: '2.1.325',
  program: 'claude',
  versionArgs: ['--version'],
  platformPackages: (arch, musl) => [`@anthropic-ai/claude-code-linux-${arch}${musl ? '-musl' : ''}`],
  fileInPackage: 'claude',
  pathsInHome: ['.local/bin/claude', '.claude/local/claude'],
  needs: [],
  environment: ({ model }) => ({
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    ...(model === undefined ? {} : { ANTHROPIC_MODEL: model }),
  }),
  stateFolders: ['.claude', '.claude.json'],
  headless: {
    through: 'program',
    args: ({ model, sessionId }) => [
      '--print',
      '--output-format',
      'stream-json',
      '--verbose',
      '--permission-mode',
      'bypassPermissions',
      ...(model === undefined ? [] : ['--model', model]),
      ...(sessionId === undefined ? [] : ['--resume', sessionId]),
    ],
    read: readClaudeLine,
  },
  interactiveArgs: ({ model, sessionId }) => [
    ...(model === undefined ? [] : ['--model', model]),
    ...(sessionId === undefined ? [] : ['--resume', sessionId]),
  ],
}
