import { filePost } from '../show/answer.ts'
import { type Command, option, threadOf } from './command.ts'

/** The changes as a file. */
export const pull: Command = {
  definition: {
    name: 'pull',
    description: 'Get the changes of this thread as a file.',
    options: [
      option('as', 'A patch (default), or a git bundle with a branch', {
        choices: [
          { name: 'patch', value: 'patch' },
          { name: 'branch', value: 'branch' },
        ],
        max_length: undefined,
      }),
    ],
  },
  right: 'use',
  reply: 'public',
  async run(call, place) {
    const thread = await threadOf(call, place)
    const as = call.text('as') === 'branch' ? 'branch' : 'patch'
    const file = await place.threads.pull(thread.threadId, as, call.by)
    const post = filePost(file)
    if (!post.files) return post
    const how = as === 'branch' ? 'git fetch FILE BRANCH' : 'git apply FILE'
    return { ...post, content: `-# • Use it with: ${how}` }
  },
}
