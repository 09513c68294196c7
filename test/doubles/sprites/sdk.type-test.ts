/** Checks that the vendor's SDK matches the types of our provider. Never run; `tsc` is the test. */
import type * as current from '@fly/sprites'
import type { SpritesSdk } from '@sandkasten/sdk/sprites'

declare const module: typeof current
export const fitting: SpritesSdk = module
