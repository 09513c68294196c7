import { connect, type Socket } from 'node:net'

/**
 * Node allocates 64 KiB for every read of a socket, and frees them when it collects garbage. Here all reads go to the same memory: it is
 * read, handed out and done with before anything else happens, so one for the whole process is enough, and reads can be larger.
 */
const memory = Buffer.allocUnsafeSlow(256 * 1024)

/** A connection whose `data` events hold bytes that are valid until the event returns. */
export function connectFrugally(path: string): Socket {
  const socket = connect({
    path,
    onread: {
      buffer: memory,
      callback(size) {
        socket.emit('data', memory.subarray(0, size))
        return true
      },
    },
  })
  return socket
}
