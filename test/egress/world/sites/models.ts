/** A model of Anthropic that writes a file with a tool, and says so. */
import { answerMessages } from '../../../../packages/opencode/src/testing/anthropic-server.ts'
import type { Site } from './site.ts'

const haiku = 'All tests are green now.\nThe last one was the hardest.\nTomorrow, new ones.\n'

export const models: Readonly<Record<string, Site>> = {
  'api.anthropic.com': (request, body, response) =>
    answerMessages(request, body, response, ({ answered }) => {
      const args = { file_path: '/workspace/haiku.md', content: haiku }
      return answered === 0 ? { tool: 'Write', args } : { text: 'I wrote haiku.md.' }
    }),
}
