/** Whether an id was seen lately. Discord may deliver an event twice. */
export class Recent {
  readonly #ids = new Set<string>()
  readonly #most: number

  constructor(most = 2000) {
    this.#most = most
  }

  has(id: string): boolean {
    return this.#ids.has(id)
  }

  /** False: it was added before. */
  add(id: string): boolean {
    if (this.#ids.has(id)) return false
    this.#ids.add(id)
    if (this.#ids.size > this.#most) this.#ids.delete(this.#ids.values().next().value!)
    return true
  }

  remove(id: string): void {
    this.#ids.delete(id)
  }
}
