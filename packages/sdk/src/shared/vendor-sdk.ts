import { SandboxError } from '../errors.ts'

export interface VendorPackage {
  readonly provider: string
  readonly name: string
  readonly major: number
  /** Whether a module looks like that package. The only check possible in a bundle. */
  fits(module: Readonly<Record<string, unknown>>): boolean
}

/** Returns the vendor's SDK: the caller's, or the installed one. Loaded on first use. */
export async function loadVendorSdk<T>(vendor: VendorPackage, given: unknown): Promise<T> {
  const module = given === undefined ? await imported(vendor) : await unwrapped(given)
  const candidates = [module, (module as { default?: unknown } | undefined)?.default]
  const found = candidates.find((one) => isModule(one) && vendor.fits(one))
  if (found) return found as T
  throw new SandboxError(
    'sdk_missing',
    `The sdk option is not a version of ${vendor.name} that this provider supports.`,
    {
      provider: vendor.provider,
      hint: installHint(vendor),
    },
  )
}

/** Accepts a module, a promise of a module, or a function that imports it. */
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
  // Not a literal, so that bundlers and type checkers do not require the package.
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
        : `The package ${name} is installed, but does not load.`,
      {
        provider: vendor.provider,
        cause,
        details: { missing },
        hint: missing ? installHint(vendor) : 'See the cause, then reinstall it.',
      },
    )
  }
  const version = await installedVersion(vendor)
  if (version !== undefined) refuseOther(vendor, version)
  return module
}

/** True only if this package itself is missing, not one of its dependencies. Node's error names the package. */
function isMissing(cause: unknown, name: string): boolean {
  const { code, message } = cause as { code?: unknown; message?: unknown }
  if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') return false
  return String(message).includes(`'${name}'`)
}

/** Another major version has other calls, so it is rejected early. */
export function refuseOther(vendor: VendorPackage, version: string): void {
  if (Number(version.split('.')[0]) === vendor.major) return
  throw new SandboxError(
    'sdk_missing',
    `${vendor.name} ${version} is installed; this provider supports ${vendor.major}.x.`,
    { provider: vendor.provider, details: { version }, hint: installHint(vendor) },
  )
}

/** Undefined in a bundle, which has no manifest; the module's shape is checked instead. */
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
