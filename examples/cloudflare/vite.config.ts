import sandkasten from '@sandkasten/cloudflare/vite'

// Cloudflare's own plugin comes after it: it reads the config that this one has just brought in step.
export default { plugins: [sandkasten()] }
