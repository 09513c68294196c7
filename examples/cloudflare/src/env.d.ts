declare namespace Cloudflare {
  interface Env {
    /** A secret: `{"<token>": "<user id>"}`. Set it with `wrangler secret put API_TOKENS`. */
    API_TOKENS: string
  }
}
