/** The sandbox file that `migrate` writes, as small as the old entry allows. */
import { existsSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import type { ConfigFile } from '../config-file.ts'
import { sdkVersion } from '../discover/sdk-version.ts'
import { dotRelative } from '../paths.ts'
import { isObject, type Json, type JsonObject } from '../plan/edits.ts'
import { DEFAULT_IMAGE } from '../plan/image.ts'
import { DEFAULT_INSTANCE_TYPE } from '../plan/resolve.ts'
import type { Section } from '../plan/section.ts'

export function oldContainer(section: Section): JsonObject {
  const found = section.containers.find((one) => isObject(one) && one.class_name === 'Sandbox')
  return isObject(found) ? found : {}
}

/** `code-interpreter` → `CodeInterpreterSandbox`. */
export function classNameOf(name: string): string {
  const words = name.split(/[-_]+/).filter(Boolean)
  return `${words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('')}Sandbox`
}

/** Static fields for values of the old entry that differ from the defaults. */
export function sandboxSource(
  className: string,
  containerName: string,
  old: JsonObject,
  config: ConfigFile,
  path: string,
): string {
  const fields: string[] = []
  const image = old.image ?? (isObject(old.configuration) ? old.configuration.image : undefined)
  if (typeof image === 'string' && image !== `${DEFAULT_IMAGE}:${sdkVersion(path)}`) {
    fields.push(`static image = ${quote(imageFrom(path, config.dir, image))}`)
  }
  const type = old.instance_type
  // An entry without a type used wrangler's default, which is `lite` under its old name `dev`.
  if (type !== undefined && type !== DEFAULT_INSTANCE_TYPE)
    fields.push(`static instanceType = ${quote(type)}`)
  if (old.max_instances !== undefined) fields.push(`static maxInstances = ${quote(old.max_instances)}`)
  const name = nameOf(old, config.value)
  if (name && name !== containerName) {
    fields.push(
      '// The name of the running application: another name would make Cloudflare create a second one.',
    )
    fields.push(`static containerName = ${quote(name)}`)
  }
  const body =
    fields.length === 0
      ? '{}'
      : `{\n${fields.map((field) => `\t${field}${field.startsWith('//') ? '' : ';'}\n`).join('')}}`
  return `import { Sandbox } from '@cloudflare/sandbox';\n\nexport default class ${className} extends Sandbox<Env> ${body}\n`
}

/** The Dockerfile's path relative to the new file's folder; a registry reference unchanged. */
function imageFrom(path: string, configDir: string, image: string): string {
  const target = resolve(configDir, image)
  return existsSync(target) ? dotRelative(dirname(path), target) : image
}

function nameOf(old: JsonObject, config: JsonObject): string | undefined {
  if (typeof old.name === 'string') return old.name
  if (Object.keys(old).length === 0 || typeof config.name !== 'string') return undefined
  return `${config.name}-Sandbox`.toLowerCase().replaceAll(' ', '-')
}

function quote(value: Json): string {
  return typeof value === 'string'
    ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
    : JSON.stringify(value)
}
