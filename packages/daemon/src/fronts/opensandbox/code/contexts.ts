import { SandboxError } from '@sandkasten/sdk'
import type { LiveCommand, Session } from '../../../sessions/index.ts'
import { ifMissing, needed, notSupported, parsed } from '../../shared/request.ts'
import type { Call, Entry } from '../entry.ts'
import * as schemas from '../schemas.ts'
import { sendExecution } from './execution-events.ts'
import { runPython, startPython } from './python.ts'
import { endShell, noContext, openShell, runInShell } from './shells.ts'

type Language = 'python' | 'bash'

interface Context {
  readonly id: string
  readonly language: Language
  /** The start of the sandbox that the context belongs to and ends with. */
  readonly incarnation: number
}

const kind = 'context'
const usualKind = 'default-context'

/** Runs code in contexts that keep their state: a shell for bash, an interpreter in the sandbox for Python. */
export function codeRoutes(entry: Entry): void {
  const contexts = new Contexts(entry)

  entry.execd('POST', '/code/context', 'exec', async (call) => {
    const { language } = parsed(schemas.contextBody, call.body)
    return viewOf(await contexts.make(call, languageOf(language)))
  })

  entry.execd('GET', '/code/contexts', 'read', async (call) => {
    const { language } = call.query
    const all = await contexts.list(call)
    return all.filter((one) => language === undefined || one.language === language).map(viewOf)
  })

  entry.execd('DELETE', '/code/contexts', 'exec', async (call) => {
    const language = needed(call, 'language')
    for (const one of await contexts.list(call)) if (one.language === language) await contexts.end(call, one)
  })

  entry.execd('GET', '/code/contexts/:context', 'read', async (call) =>
    viewOf(await contexts.get(call, call.params.context!)),
  )

  entry.execd('DELETE', '/code/contexts/:context', 'exec', async (call) =>
    contexts.end(call, await contexts.get(call, call.params.context!)),
  )

  entry.execd('POST', '/code', 'exec', async (call) => {
    const { code, context: given } = parsed(schemas.codeBody, call.body)
    const context = given?.id
      ? await contexts.get(call, given.id)
      : await contexts.usual(call, languageOf(given?.language))
    if (context.language === 'bash') return runInShell(entry, call, context.id, code)
    const found = await contexts.interpreter(call, context)
    return sendExecution(entry, call, found, (ending) => runPython(call, found, code, ending))
  })

  entry.execd('DELETE', '/code', 'exec', async (call) => {
    const context = await contexts.get(call, needed(call, 'id'))
    if (context.language === 'python') {
      await (await contexts.interpreter(call, context)).kill('SIGINT')
      return
    }
    const { commands } = entry.services.sessions
    for (const { exec_id, shell, status } of await commands.list(call.caller, call.id, 200)) {
      if (shell !== context.id || status !== 'running') continue
      const found = await commands.find(call.caller, call.id, exec_id)
      if (found.state === 'live') await found.kill('SIGINT')
    }
  })
}

class Contexts {
  readonly #entry: Entry

  constructor(entry: Entry) {
    this.#entry = entry
  }

  async make(call: Call, language: Language): Promise<Context> {
    const session = await this.#entry.find(call.caller, call.id)
    const id =
      language === 'python' ? await startPython(this.#entry, call) : await openShell(this.#entry, call)
    const context = { id, language, incarnation: session.incarnation }
    await this.#entry.place.records.put(call.caller.projectId, kind, keyOf(session, id), context, session.id)
    return context
  }

  async get(call: Call, id: string): Promise<Context> {
    const session = await this.#entry.find(call.caller, call.id)
    const { records } = this.#entry.place
    const context = await records.get<Context>(call.caller.projectId, kind, keyOf(session, id))
    if (context?.incarnation === session.incarnation) return context
    throw noContext(id)
  }

  async list(call: Call): Promise<Context[]> {
    const session = await this.#entry.find(call.caller, call.id)
    const { records } = this.#entry.place
    const rows = await records.list<Context>(call.caller.projectId, kind, { sessionId: session.id })
    return rows.map(({ data }) => data).filter(({ incarnation }) => incarnation === session.incarnation)
  }

  /** The default context of a language. Created on first use, and again after it has ended. */
  usual(call: Call, language: Language): Promise<Context> {
    const { records, services } = this.#entry.place
    const { projectId } = call.caller
    const key = `${call.id} ${language}`
    return services.sessions.locked(`${key} opensandbox`, async () => {
      await this.#entry.find(call.caller, call.id)
      const id = await records.get<string>(projectId, usualKind, key)
      const known = id === undefined ? undefined : await this.#alive(call, id)
      if (known) return known
      const made = await this.make(call, language)
      await records.put(projectId, usualKind, key, made.id, call.id)
      return made
    })
  }

  /** The command that runs the interpreter of a Python context. */
  async interpreter({ caller, id }: Call, context: Context): Promise<LiveCommand> {
    const found = await this.#entry.services.sessions.commands
      .find(caller, id, context.id)
      .catch((error: unknown) => {
        throw SandboxError.is(error, 'not_found') ? noContext(context.id) : error
      })
    if (found.state === 'live') return found
    throw noContext(context.id)
  }

  async end(call: Call, context: Context): Promise<void> {
    if (context.language === 'bash') await endShell(this.#entry, call, context.id)
    else await this.interpreter(call, context).then((found) => found.kill('SIGKILL'), ifMissing)
    await this.#entry.place.records.delete(call.caller.projectId, kind, keyOf({ id: call.id }, context.id))
  }

  async #alive(call: Call, id: string): Promise<Context | undefined> {
    const context = await this.get(call, id).catch(ifMissing)
    if (context?.language === 'python' && !(await this.interpreter(call, context).catch(ifMissing)))
      return undefined
    return context
  }
}

function keyOf({ id }: Pick<Session, 'id'>, context: string): string {
  return `${id} ${context}`
}

function viewOf({ id, language }: Context): object {
  return { id, language }
}

function languageOf(given = 'python'): Language {
  const language = given.toLowerCase()
  if (language === 'python' || language === 'bash') return language
  throw notSupported(`The language ${given.slice(0, 50)}`, 'Use python or bash, or run it with a command.')
}
