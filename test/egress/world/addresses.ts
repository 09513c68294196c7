/**
 * The addresses of the egress tests’ world. The public addresses are from 11.0.0.0/8 and 2600:11::/32, because
 * the gateway refuses the networks that are reserved for documentation. No packet leaves the world's namespaces.
 */

/** The host of the engine has a cable to the internet, and nothing else. */
export const HOST = {
  lan: '10.77.0.2',
  public: '11.0.9.2',
  v6: '2600:77::2',
  linkLocal: 'fe80::78',
} as const
export const ROUTER = { lan: '10.77.0.1', v6: '2600:77::1', linkLocal: 'fe80::77' } as const

export const RESOLVER = '11.0.0.53'
export const FOREIGN_RESOLVER = '11.0.0.54'
export const ALLOWED = '11.0.1.1'
export const WILD = '11.0.1.2'
/** Serves an allowed and a denied name with one certificate. */
export const FRONT = '11.0.1.3'
export const DENIED = '11.0.2.1'
export const PROXY = '11.0.3.1'

export const METADATA = '169.254.169.254'
export const AZURE = '168.63.129.16'
export const ALIBABA = '100.100.100.200'
export const METADATA_V6 = 'fd00:ec2::254'

export const NEIGHBOURS = ['10.20.0.5', '192.168.50.5', '172.20.0.5'] as const

/** Every address of the internet’s side, besides the router’s own. */
export const INTERNET: readonly string[] = [
  RESOLVER,
  FOREIGN_RESOLVER,
  ALLOWED,
  '2600:11::1:1',
  WILD,
  FRONT,
  '11.0.1.4',
  DENIED,
  '2600:11::2:1',
  PROXY,
  // The denied server behind NAT64, and in a 6to4 address.
  '64:ff9b::b00:201',
  '2002:b00:201::1',
  // The same in networks that a router of the machine might translate.
  '64:ff9b:1::b00:201',
  '2001:0:b00:201::1',
  // The metadata service and the host's own address behind NAT64, and in 6to4 addresses.
  '64:ff9b::a9fe:a9fe',
  '2002:a9fe:a9fe::1',
  '64:ff9b::b00:902',
  '2002:b00:902::1',
  METADATA,
  AZURE,
  ALIBABA,
  METADATA_V6,
  ...NEIGHBOURS,
  'fd12:3456::5',
  // Addresses that mean something inside a sandbox: outside they belong to others.
  '192.0.0.3',
  '192.0.0.8',
  '192.0.0.9',
]

/** Ports of the stand-ins. TLS is served on 443, 853 and 8443. */
export const TLS_PORTS = [443, 853, 8443] as const
export const HTTP_PORTS = [80, 3128, 8080] as const
/** From 7000 each way has its own port, so that its event is not another's. */
export const RAW_PORTS = [22, 25, 5432, 9418, ...Array.from({ length: 90 }, (_, at) => 7000 + at)] as const

/** Services of the host: on its loopback, and on all its addresses. */
export const LOOPBACK_PORT = 9901
export const HOST_PORT = 9902
/** Listeners of the host's daemon, on all its addresses. */
export const DAEMON = {
  api: 9910,
  previews: 9911,
  e2b: 9912,
  daytona: 9913,
  vercel: 9914,
  opensandbox: 9915,
} as const
export const ABSTRACT_SOCKET = 'sandkasten-world'
