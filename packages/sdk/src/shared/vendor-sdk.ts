import { SandboxError } from '../errors.ts'

/** A vendor's package, as its provider knows it. */
export interface VendorPackage {
  readonly provider: string
  readonly name: string
  /** The one that the provider was tested with. */
  readonly major: number
  /** Whether a module looks like that package: all there is to see where packages are bundled. */
  fits(module: Readonly<Record<string, unknown>>): boolean
}

/** The vendor's SDK: the caller's, or the one that is installed. It is loaded when it is first needed, never before. */
export async function loadVendorSdk<T>(vendor: VendorPackage, given: unknown): Promise<T> {
  const module = given === undefined ? await imported(vendor) : await unwrapped(given)
  const candidates = [module, (module as { default?: unknown } | undefined)?.default]
  const found = candidates.find((one) => isModule(one) && vendor.fits(one))
  if (found) return found as T
  throw new SandboxError('sdk_missing', `This is not a ${vendor.name} that this provider knows.`, {
    provider: vendor.provider,
    hint: installHint(vendor),
  })
}

/** A module, the promise of one, or a function that imports it. */
function unwrapped(given: unknown): Promise<unknown> | unknown {
  return typeof given === 'function' && !('Sandbox' in given) ? (given as () => unknown)() : given
}

function isModule(value: unknown): value is Readonly<Record<string, unknown>> {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

function installHint({ name, major }: VendorPackage): string {
  return `Install the version that was tested: npm install ${name}@${major}`
}

async function imported(vendor: VendorPackage): Promise<unknown> {
  // Not written as a literal, so that no bundler and no type checker wants the package where it is not used.
  const name: string = vendor.name
  let module: unknown
  try {
    module = await import(/* @vite-ignore */ name)
  } catch (cause) {
    const missing = isMissing(cause, name)
    throw new SandboxError(
      'sdk_missing',
      missing
        ? `The provider “${vendor.provider}” needs the package ${name}.`
        : `The package ${name} is there, but does not load.`,
      {
        provider: vendor.provider,
        cause,
        details: { missing },
        hint: missing ? installHint(vendor) : 'See the cause; then install it again.',
      },
    )
  }
  const version = await installedVersion(vendor)
  if (version !== undefined) refuseOther(vendor, version)
  return module
}

/** Only its own absence: a package that it misses in turn is another fault. Node names the package that it looked for. */
function isMissing(cause: unknown, name: string): boolean {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return false
  return String(message).includes(`'${name}'`)
}

/** Another major version has other calls; better to say so than to fail somewhere in the middle. */
export function refuseOther(vendor: VendorPackage, version: string): void {
  if (Number(version.split('.')[0]) === vendor.major) return
  throw new SandboxError(
    'sdk_missing',
    `${vendor.name} ${version} is installed; this provider knows ${vendor.major}.x.`,
    { provider: vendor.provider, details: { version }, hint: installHint(vendor) },
  )
}

/** Undefined where packages are bundled: there is no manifest to look at, and the shape of the module has to do. */
async function installedVersion(vendor: VendorPackage): Promise<string | undefined> {
  const manifest: string = `${vendor.name}/package.json`
  try {
    const found = (await import(/* @vite-ignore */ manifest, { with: { type: 'json' } })) as {
      default: { version: string }
    }
    return found.default.version
  } catch {
    return undefined
  }
}
