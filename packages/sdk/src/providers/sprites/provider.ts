import { DriverProvider } from '../../core/provider.ts'
import { Account } from './account.ts'
import type { SpritesCapabilities } from './capabilities.ts'
import { SpritesDriver } from './driver.ts'
import { accessOf, type SpritesProviderOptions } from './options.ts'

/** Sprites of Fly.io, through their SDK (`npm install @fly/sprites@0`), which is loaded on first use. */
export class SpritesProvider extends DriverProvider<SpritesCapabilities> {
  constructor(options: SpritesProviderOptions = {}) {
    const access = accessOf(options)
    super(new SpritesDriver(new Account(access, options.sdk), access.namePrefix))
  }
}
