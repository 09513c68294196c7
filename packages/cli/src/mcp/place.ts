import path from 'node:path'
import { type BrokerPlace, brokerPlace } from '@sandkasten/mcp/broker'
import { registryPlace } from '../engine-place.ts'

/** The files of this user’s broker, beside the registry. */
export async function brokerHere(): Promise<BrokerPlace> {
  const { data } = await registryPlace()
  return brokerPlace(path.join(data, 'registry'))
}
