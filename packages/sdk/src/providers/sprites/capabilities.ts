/**
 * The abilities of sprites. The vendor stops and starts them itself, and its checkpoints only restore the sprite that they
 * came from, so there is no stop, snapshot or fork.
 */
export interface SpritesCapabilities {
  readonly stdin: 'emulated'
  readonly mergedOutput: 'emulated'
  readonly reattach: 'emulated'
  readonly shell: 'emulated'
  readonly terminal: 'emulated'
  readonly ports: 'native'
}

export const spritesCapabilities: SpritesCapabilities = Object.freeze({
  stdin: 'emulated',
  mergedOutput: 'emulated',
  reattach: 'emulated',
  shell: 'emulated',
  terminal: 'emulated',
  ports: 'native',
})
