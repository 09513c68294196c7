/** One attempt to reach what the policy does not allow. */
export interface Way {
  readonly name: string
  readonly tries: string
  /** Python with the helpers of `prelude.py`, or a shell script. Both know the token as `T`. */
  readonly script: { readonly python: string } | { readonly sh: string }
  /** `brokered`: the policy has a transform for `front.wild.example`, so the gateway sees the requests inside TLS. */
  readonly policy: 'closed' | 'brokered'
  readonly asRoot: boolean
  /** The addresses that the token must not reach. Default: all. */
  readonly at: RegExp
  /** What the gateway must have recorded, or why it cannot see anything. */
  readonly event: EventPattern | { readonly unseen: string }
  /** Whether a policy that allows all addresses lets the script through. Otherwise only the bare host does. */
  readonly opens: boolean
}

export interface EventPattern {
  readonly kind?: string
  readonly host?: string
  readonly address?: string
  readonly port?: number
  readonly reason?: string | readonly string[]
}

export type Expectation = Partial<Pick<Way, 'policy' | 'asRoot' | 'at' | 'event' | 'opens'>>

const build =
  (language: 'python' | 'sh') =>
  (name: string, tries: string, script: string, expected: Expectation & Pick<Way, 'event'>): Way => ({
    name,
    tries,
    script: language === 'python' ? { python: script } : { sh: script },
    policy: 'closed',
    asRoot: false,
    at: /./,
    opens: false,
    ...expected,
  })

export const python = build('python')
export const sh = build('sh')

/** Programs inside do not get this far, so the gateway has nothing to record. */
export const noSocket = { unseen: 'the sandbox may not create this socket' }
export const staysInside = { unseen: 'the address leads to the sandbox itself' }
