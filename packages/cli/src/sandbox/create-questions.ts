import { select, text } from '@clack/prompts'
import { parseDuration } from '../options.ts'
import { answerTo, onStderr } from './ask.ts'
import { type CreateOptions, newName } from './create.ts'
import type { Opened } from './open.ts'

/** Asks for what the options leave open. Enter accepts the default of every question. */
export async function ask(opened: Opened, given: CreateOptions): Promise<CreateOptions> {
  const provider = given.provider ?? (await askProvider(opened))
  const name = given.name ?? (await askName(opened))
  const project = given.repo ?? given.upload ?? given.snapshot
  const source = project === undefined ? await askProject() : {}
  const image = given.image ?? given.runtime ?? given.snapshot
  const images = image === undefined ? await askImage() : {}
  const lifetime = given.lifetime ?? (await askLifetime())
  return { ...given, provider, name, ...source, ...images, lifetime }
}

async function askProvider({ registry }: Opened): Promise<string | undefined> {
  const usable = await registry.credentials.list()
  // The only one needs no question.
  if (usable.length < 2) return undefined
  return answerTo(
    select<string>({
      ...onStderr,
      message: 'Where?',
      initialValue: usable.find(({ isDefault }) => isDefault)?.provider,
      options: usable.map(({ provider, title, label }) => ({
        value: provider,
        label: provider,
        hint: label ?? title,
      })),
    }),
  )
}

async function askName(opened: Opened): Promise<string> {
  const suggested = await newName(opened)
  return answerTo(text({ ...onStderr, message: 'Name?', placeholder: suggested, defaultValue: suggested }))
}

async function askProject(): Promise<Pick<CreateOptions, 'repo' | 'upload'>> {
  const here = process.cwd()
  const source = await answerTo(
    select<'nothing' | 'repo' | 'upload'>({
      ...onStderr,
      message: 'What is in it?',
      initialValue: 'nothing',
      options: [
        { value: 'nothing', label: 'nothing' },
        { value: 'upload', label: 'this folder', hint: here },
        { value: 'repo', label: 'a git repository' },
      ],
    }),
  )
  if (source === 'upload') return { upload: here }
  if (source === 'nothing') return {}
  const validate = (url: string | undefined) =>
    url?.trim() ? undefined : 'Type its address, such as https://….'
  const url = await answerTo(text({ ...onStderr, message: 'Its address?', validate }))
  return { repo: url.trim() }
}

async function askImage(): Promise<Pick<CreateOptions, 'image'>> {
  const message = 'Image?'
  const image = await answerTo(
    text({ ...onStderr, message, placeholder: 'the provider’s default', defaultValue: '' }),
  )
  return image.trim() === '' ? {} : { image: image.trim() }
}

async function askLifetime(): Promise<number | undefined> {
  const seconds = await answerTo(
    text({
      ...onStderr,
      message: 'Longest running time?',
      placeholder: 'the provider’s default; or such as 30m or 2h',
      defaultValue: '',
      validate: (value) => (value?.trim() ? problemOf(value) : undefined),
    }),
  )
  return seconds.trim() === '' ? undefined : parseDuration(seconds)
}

function problemOf(duration: string): string | undefined {
  try {
    parseDuration(duration)
    return undefined
  } catch {
    return 'Use a number and a unit, such as 30m or 2h.'
  }
}
