import { describe, expect, it } from 'vitest'
import { type ModelAddress, modelNetwork, modelUrl } from './network.ts'

describe('the network of a model', () => {
  it.each<[ModelAddress, object, string]>([
    [
      { url: 'https://api.example.com/v1' },
      { allow: [{ host: 'api.example.com', ports: [443], protocol: 'tls' }] },
      'https://api.example.com/v1',
    ],
    [
      { url: 'http://api.example.com:8080/v1' },
      { allow: [{ host: 'api.example.com', ports: [8080], protocol: 'http' }] },
      'http://api.example.com:8080/v1',
    ],
    [
      { url: 'http://198.51.100.7:8080/v1' },
      { allow: [{ cidr: '198.51.100.7', ports: [8080] }] },
      'http://198.51.100.7:8080/v1',
    ],
    [
      { url: 'http://localhost:8080/v1/' },
      { allow: [], services: { model: { host: '127.0.0.1', port: 8080 } } },
      'http://model.sandkasten.internal/v1',
    ],
    [
      { url: 'http://[::1]:8080/v1', name: 'local' },
      { allow: [], services: { local: { host: '::1', port: 8080 } } },
      'http://local.sandkasten.internal/v1',
    ],
    [
      { url: 'http://model.sandkasten.internal/v1' },
      { allow: [], services: { model: { host: 'model.sandkasten.internal', port: 80 } } },
      'http://model.sandkasten.internal/v1',
    ],
  ])('%j', (address, policy, url) => {
    expect(modelNetwork(address)).toEqual(policy)
    expect(modelUrl(address)).toBe(url)
  })

  it('adds a secret as a bearer token, or in a header', () => {
    const url = 'https://api.example.com'
    expect(modelNetwork({ url, secret: 'key' }).transform).toEqual([
      {
        match: { host: 'api.example.com' },
        headers: { authorization: { secret: 'key', prefix: 'Bearer ' } },
      },
    ])
    expect(modelNetwork({ url, secret: 'key', header: 'x-api-key' }).transform).toEqual([
      { match: { host: 'api.example.com' }, headers: { 'x-api-key': { secret: 'key' } } },
    ])
  })

  it.each(['http://api.example.com', 'https://198.51.100.7', 'https://api.example.com:8443'])(
    'refuses a secret for %s, where it would not be added',
    (url) => {
      expect(() => modelNetwork({ url, secret: 'key' })).toThrow(/HTTPS requests to a host name, on port 443/)
    },
  )

  it.each(['api.example.com', 'ftp://api.example.com', 'https://u:p@api.example.com', 'https://127.0.0.1'])(
    'refuses the URL %s',
    (url) => {
      expect(() => modelNetwork({ url })).toThrow(/URL of the model is invalid/)
      expect(() => modelUrl({ url })).toThrow(/invalid/)
    },
  )
})
