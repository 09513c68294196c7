import sandkasten from '@sandkasten/cloudflare/vite'

// List Cloudflare's own plugin after this one: it reads the config that this plugin writes.
export default { plugins: [sandkasten()] }
