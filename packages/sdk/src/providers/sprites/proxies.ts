import { SandboxError } from '../../errors.ts'
import type { VendorProxy } from './sdk.ts'

/** The SDK's listeners on this machine, which relay connections to ports of sprites. */
export class Proxies {
  readonly #open = new Map<string, Map<number, Promise<VendorProxy>>>()

  /** The address of the listener for a port. It stays the same while the listener is open. */
  async address(sandboxId: string, port: number, listen: () => Promise<VendorProxy>): Promise<string> {
    const ports = this.#open.get(sandboxId) ?? new Map<number, Promise<VendorProxy>>()
    this.#open.set(sandboxId, ports)
    const known = ports.get(port) ?? listening(listen)
    ports.set(port, known)
    try {
      const address = (await known).localAddr()
      if (address !== null) return address
      throw new SandboxError('provider_error', 'Sprites’ SDK does not listen.', { provider: 'sprites' })
    } catch (error) {
      ports.delete(port)
      throw error
    }
  }

  /** For a sandbox that is gone. */
  close(sandboxId: string): void {
    const ports = this.#open.get(sandboxId)
    this.#open.delete(sandboxId)
    for (const proxy of ports?.values() ?? []) void proxy.then((one) => one.close()).catch(() => {})
  }
}

async function listening(listen: () => Promise<VendorProxy>): Promise<VendorProxy> {
  const proxy = await listen()
  // A failed connection ends for its client. Without a listener, the error would end this process.
  proxy.on('error', () => {})
  return proxy
}
